import { expect, test } from "vitest";
import * as z from "zod";
import { readOpenAi } from "../../../src/coordinator/routes/openai-format.ts";
import { ChatCompletionRequest } from "../../../src/protocol/chat.ts";
import { describeIssues } from "../../../src/protocol/issues.ts";
import { CommitRequest, parseCommit } from "../../../src/protocol/job.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { parseWorkerFrame, Register } from "../../../src/protocol/worker-messages.ts";

// A body has room for 250,000 wrong items, and each would cost as much as a small request.

const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const MESSAGE = { role: "user", content: "" };
const commit = (messages: unknown[]): object => ({ job_type: "LLM_INFER", user_id: "u", payload: { messages } });

/** Items that count how often one of them is read. */
function counted(items: number): { list: object[]; reads: () => number } {
  let reads = 0;
  const item = {
    get type() {
      reads++;
      return "image";
    },
  };
  return { list: many(items, item), reads: () => reads };
}

test("[LM1, JB12] a chat has at most 2,000 messages", () => {
  expect(parseCommit(commit(many(LIMITS.chatMessages, MESSAGE)))).toMatchObject({ ok: true });
  expect(parseCommit(commit(many(LIMITS.chatMessages + 1, MESSAGE)))).toMatchObject({
    ok: false,
    error: expect.stringContaining("payload.messages must have at most 2000 entries, got an array"),
  });
});

test("[LM1, API9] so has one of OpenAI's API, and as many texts in parts", () => {
  const parts = (count: number) => ({ messages: many(2, { role: "user", content: many(count / 2, { type: "text", text: "a" }) }) });
  expect(readOpenAi("chat", parts(LIMITS.chatMessages))).toMatchObject({ ok: true });
  expect(readOpenAi("chat", parts(LIMITS.chatMessages + 2))).toEqual({ ok: false, reason: "messages must have at most 2000 texts in all, got an array" });
  expect(readOpenAi("chat", { messages: many(LIMITS.chatMessages, MESSAGE) })).toMatchObject({ ok: true });
  expect(readOpenAi("chat", { messages: many(LIMITS.chatMessages + 1, MESSAGE) })).toMatchObject({
    ok: false,
    reason: "messages must have at most 2000 entries, got an array",
  });
});

test.each([0, {}])("[LM1] of a list that is too long no item is checked: 100,000 times %j is one problem", (item) => {
  expect(CommitRequest.safeParse(commit(many(100_000, item))).error?.issues).toHaveLength(1);
  expect(ChatCompletionRequest.safeParse({ messages: many(100_000, item) }).error?.issues).toHaveLength(1);
});

test("[LM1, API9] of too many texts in parts none is checked", () => {
  const { list, reads } = counted(500);
  expect(readOpenAi("chat", { messages: many(500, { role: "user", content: list }) })).toMatchObject({ ok: false });
  expect(reads()).toBe(0);
});

test("[LM1] of many problems only those that are told are put into words", () => {
  const { list, reads } = counted(1_000);
  const error = new z.ZodError(list.map((_, at) => ({ code: "custom", path: [at, "type"], message: "must be text", input: undefined })));
  expect(describeIssues(error, list)).toBe('[0].type must be text, got "image"; [1].type must be text, got "image"; [2].type must be text, got "image"');
  expect(reads()).toBe(3);
});

test("[LM1, WS3] a worker tells the context of at most 256 models, and of more none is checked", () => {
  const register = (models: number, tokens: unknown) => {
    const context = Object.fromEntries(Array.from({ length: models }, (_, at) => [`m${at}`, tokens]));
    return { type: "register", provider_pubkey: "ab".repeat(32), provider_type: "DESKTOP", capabilities: ["TASK"], context };
  };
  expect(parseWorkerFrame(JSON.stringify(register(256, 4_096)))).toMatchObject({ ok: true, frame: { context: { m0: 4_096, m255: 4_096 } } });
  expect(parseWorkerFrame(JSON.stringify(register(257, 4_096)))).toMatchObject({
    ok: false,
    reason: "invalid_register",
    message: "context must be a whole number, or an object of at most 256 of them, got an object",
  });
  expect(JSON.stringify(Register.safeParse(register(10_000, -1)).error).length).toBeLessThan(2_000);
  for (const context of [-1, 0.5, { a: -1 }, { a: "1" }, { ["a".repeat(257)]: 1 }, [1], "1"]) {
    expect(parseWorkerFrame(JSON.stringify({ ...register(0, 0), context }))).toMatchObject({ ok: false, reason: "invalid_register" });
  }
  for (const context of [null, 0, 4_096, {}, { a: 0 }]) expect(parseWorkerFrame(JSON.stringify({ ...register(0, 0), context }))).toMatchObject({ ok: true });
});
