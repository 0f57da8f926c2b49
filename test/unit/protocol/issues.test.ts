import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readOpenAi } from "../../../src/coordinator/routes/openai-format.ts";
import { describeIssues } from "../../../src/protocol/issues.ts";
import { parseCommit } from "../../../src/protocol/job.ts";
import { PairingClaim, QuoteQuery } from "../../../src/protocol/rest.ts";
import { inWords } from "../../../src/protocol/text.ts";

import { parseWorkerFrame } from "../../../src/protocol/worker-messages.ts";

const TASK = { job_type: "TASK", user_id: "u", payload: { task_type: "classify", input: "good" } };
const LLM = { job_type: "LLM_INFER", user_id: "u", payload: { prompt: "Hi" } };
const llm = (members: object): object => ({ ...LLM, payload: { prompt: "Hi", ...members } });
const task = (members: object): object => ({ ...TASK, payload: { ...TASK.payload, ...members } });

/** The message of a refused commit, without the list of required fields that ends each. */
function refused(body: unknown): string {
  const reading = parseCommit(body);
  if (reading.ok || reading.reason !== "invalid") throw new Error(`not refused: ${JSON.stringify(reading)}`);
  const [sentence = "", required] = reading.error.split(/\. (?=Required fields: )/);
  expect(required).toBe("Required fields: job_type, payload, user_id");
  return sentence;
}

describe("[API2] a refused commit says which field is wrong, what it must be, and what it was", () => {
  test.each<[object, string]>([
    [llm({ max_tokens: "ten" }), 'payload.max_tokens must be a whole number from 1 to 32768, got "ten"'],
    [llm({ max_tokens: 0 }), "payload.max_tokens must be a whole number from 1 to 32768, got 0"],
    [llm({ max_tokens: 1.5 }), "payload.max_tokens must be a whole number from 1 to 32768, got 1.5"],
    [llm({ max_tokens: 1e308 }), "payload.max_tokens must be a whole number from 1 to 32768, got 1e+308"],
    [llm({ max_tokens: [1] }), "payload.max_tokens must be a whole number from 1 to 32768, got an array"],
    [llm({ prompt: "" }), "payload.prompt must not be empty"],
    [llm({ prompt: undefined }), "payload.prompt is missing: it must be a string, unless there are messages"],
    [llm({ prompt: null }), "payload.prompt must be a string, unless there are messages, got null"],
    [llm({ prompt: undefined, messages: [] }), "payload.messages must not be empty"],
    [llm({ prompt: undefined, messages: [{ role: "user", content: "" }] }), "payload.messages must have some text"],
    [llm({ messages: [{ role: "robot", content: "Hi" }] }), 'payload.messages[0].role must be one of system, user, assistant, got "robot"'],
    [llm({ temperature: 3 }), "payload.temperature must be a number from 0 to 2, got 3"],
    [llm({ stop: ["a", ""] }), "payload.stop[1] must not be empty"],
    [llm({ model: "<script>" }), 'payload.model must be 1 to 200 of A-Z a-z 0-9 . _ : / @ + -, got "<script>"'],
    [llm({ prompt: { text: "Hi" } }), "payload.prompt must be a string, got an object"],
    [task({ task_type: "translate" }), 'payload.task_type must be one of summarize, classify, extract_json, got "translate"'],
    [task({ job_type: "LLM_INFER" }), 'payload.job_type must be TASK, as job_type is, got "LLM_INFER"'],
    [{ ...TASK, job_type: "VIDEO" }, 'job_type must be one of LLM_INFER, TASK, got "VIDEO"'],
    [{ ...TASK, job_type: {} }, "job_type must be one of LLM_INFER, TASK, got an object"],
    [{ ...TASK, payload: "x" }, 'payload must be an object, got "x"'],
    [{ ...TASK, payload: [] }, "payload must be an object, got an array"],
    [{ ...TASK, privacy_class: true }, "privacy_class must be one of PUBLIC, PRIVATE, got true"],
    [{ ...TASK, privacy: "PRIVATE" }, "privacy must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [{ ...TASK, privacyClass: "private" }, "privacyClass must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [{ ...TASK, Privacy_Class: "PRIVATE" }, "Privacy_Class must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [{ ...TASK, "privacy_class ": " PRIVATE" }, '"privacy_class " must be absent: a job is PRIVATE if privacy_class says so, beside user_id'],
    [{ ...TASK, "Privacy-Class": "PRIVATE" }, '"Privacy-Class" must be absent: a job is PRIVATE if privacy_class says so, beside user_id'],
    [{ ...TASK, private: true }, "private must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [task({ Private: true }), "payload.Private must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [task({ privacy_class: "PRIVATE" }), "payload.privacy_class must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [{ ...task({ privacy: "PRIVATE" }), privacy_class: "PUBLIC" }, "payload.privacy must be absent: a job is PRIVATE if privacy_class says so, beside user_id"],
    [{ ...TASK, user_id: 5 }, "user_id must be a string, got 5"],
    [{ ...TASK, user_id: "" }, "user_id must have 1 to 128 characters"],
    [{ ...TASK, user_id: "😀".repeat(129) }, "user_id must have 1 to 128 characters, got a string of 129 characters"],
    [{ ...TASK, user_id: "a\u0007b" }, "user_id must not contain control characters"],
    [task({ more: "\ud800" }), "payload must hold well-formed Unicode only"],
    [
      { ...TASK, user_id: 5, payload: {} },
      "user_id must be a string, got 5; payload.task_type is missing: it must be one of summarize, classify, extract_json; payload.input is missing: it must be a string",
    ],
  ])("%j", (body, message) => {
    expect(refused(body)).toBe(message);
  });

  test.each([
    { ...TASK, privacy: "PRIVATE", privacy_class: "PRIVATE" },
    { ...TASK, privacy: "PUBLIC" },
    { ...TASK, private: false, Privacy_Class: "PUBLIC" },
    { ...TASK, private: true, privacy_class: "PRIVATE" },
    task({ privacy_note: "PRIVATE", private: "no" }),
    { ...TASK, privacy: { toString: 1, valueOf: 1 } },
    task({ privacy: "secret", privacy_class: "PUBLIC" }),
  ])("[API2, WS8] %j is a commit: its other members do not ask for more than privacy_class gives", (body) => {
    expect(parseCommit(body)).toMatchObject({ ok: true });
  });

  test("[LM1] a user_id is counted in code points", () => {
    expect(parseCommit({ ...TASK, user_id: "😀".repeat(128) })).toMatchObject({ ok: true });
  });

  test("[SPEC] a missing field is answered with the list of the required ones and nothing else", () => {
    expect(parseCommit({})).toEqual({ ok: false, reason: "invalid", error: "Missing required fields: job_type, payload, user_id" });
    expect(parseCommit({ ...TASK, user_id: null })).toEqual({ ok: false, reason: "invalid", error: "Missing required fields: job_type, payload, user_id" });
  });

  test("never repeats long or unprintable input, and uses no terms of the parser", () => {
    const hostile = fc.oneof(
      fc.string({ unit: "binary", maxLength: 500 }),
      fc.jsonValue(),
      fc.constantFrom("\u001b[31mred", "a\u202eb", "a\u2028b", "x".repeat(10_000), "\ud800"),
    );
    const body = fc.record({ job_type: fc.constantFrom("TASK", "LLM_INFER", "VIDEO"), user_id: hostile, privacy_class: hostile, payload: fc.anything() });
    const members = fc.record({ job_type: hostile, prompt: hostile, input: hostile, task_type: hostile, max_tokens: hostile });
    fc.assert(
      fc.property(body, members, (outer, payload) => {
        const reading = parseCommit({ ...outer, payload });
        if (reading.ok || reading.reason !== "invalid") return;
        expect(reading.error.length).toBeLessThan(500);
        expect(reading.error).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
        expect(reading.error).not.toMatch(/Invalid (?:input|option)|expected|received|discriminator/);
        expect(reading.error).toMatch(/Required fields: |^Missing required fields: /);
      }),
      { numRuns: 200 },
    );
  });
});

test("[API3, API4] quotes and pairings are refused in the same words", () => {
  const quote = { job_type: undefined, policy: "fast" };
  const claim = { pairing_code: 5, provider_pubkey: "abc", signature: 7 };
  expect(describeIssues(QuoteQuery.safeParse(quote).error, quote)).toBe(
    'job_type is missing: it must be one of LLM_INFER, TASK; policy must be one of FAST, CHEAP, AUTO, got "fast"',
  );
  expect(describeIssues(PairingClaim.safeParse(claim).error, claim)).toBe(
    'pairing_code must be a string, got 5; provider_pubkey must be 64 hex characters, got "abc"; signature must be a string, got 7',
  );
});

test("[WS1] a frame's problem names the field, inside a list too", () => {
  const frame = { type: "register", provider_pubkey: "ab".repeat(32), provider_type: "FRIDGE", capabilities: "TASK", resume: [{ job_id: "a", attempt: 0 }] };
  expect(parseWorkerFrame(JSON.stringify(frame))).toEqual({
    ok: false,
    reason: "invalid_register",
    message:
      'provider_type must be one of DESKTOP, MOBILE, got "FRIDGE"; capabilities must be an array, got "TASK"; resume[0].attempt must be at least 1, got 0',
  });
});

test.each(
  (
    [
      ["ten", '"ten"'],
      ['a "b"', String.raw`"a \"b\""`],
      ["naïve 用户 👩‍🚀", "a string of 12 characters"],
      ["用户 🦊", '"用户 🦊"'],
      ["x".repeat(33), "a string of 33 characters"],
      ["a\nb", "a string of 3 characters"],
      ["\u202e", "a string of 1 character"],
      [Number.NaN, "NaN"],
      [-0.5, "-0.5"],
      [12n, "a bigint"],
      [undefined, "undefined"],
      [null, "null"],
      [false, "false"],
      [[], "an array"],
      [{}, "an object"],
      [() => 1, "a function"],
      [Symbol("x"), "a symbol"],
    ] as const
  ).map(([value, words]) => ({ value, words })),
)("a value is shown only if it is short and printable: $words", ({ value, words }) => {
  expect(inWords(value)).toBe(words);
});

describe("[API9] what OpenAI's clients may ask for and nobody does here", () => {
  const chat = (more: object, message: object = {}) => readOpenAi("chat", { messages: [{ role: "user", content: "Hi", ...message }], ...more });

  test.each<[string, unknown]>([
    ["n", 2],
    ["tools", [{ type: "function" }]],
    ["functions", [{ name: "f" }]],
    ["modalities", ["text", "audio"]],
    ["audio", { voice: "a" }],
    ["logprobs", true],
    ["echo", true],
    ["best_of", 2],
    ["suffix", "end"],
  ])("%s is refused by its name, and not ignored", (member, value) => {
    for (const read of [chat({ [member]: value }), readOpenAi("completions", { prompt: "Hi", [member]: value })])
      expect(read).toMatchObject({ ok: false, reason: expect.stringMatching(new RegExp(`^${member} must be`)) });
  });

  test("calls of tools in a message are refused", () => {
    expect(chat({}, { tool_calls: [{ id: "1" }] })).toMatchObject({ ok: false, reason: expect.stringContaining("tools are not supported") });
  });

  test("a value that asks for nothing is accepted, and no worker gets it", () => {
    const nothing = { n: 1, tools: [], functions: [], modalities: ["text"], audio: null, logprobs: false, echo: false, best_of: 1, suffix: null };
    for (const neutral of [nothing, Object.fromEntries(Object.keys(nothing).map((name) => [name, null]))])
      expect(chat({ ...neutral, user: "u", stream: false, max_completion_tokens: 9, max_tokens: 8 }, { tool_calls: [] })).toMatchObject({
        ok: true,
        value: { payload: { job_type: "LLM_INFER", messages: [{ role: "user", content: "Hi" }], max_tokens: 9 }, user: "u" },
      });
    const read = chat(nothing);
    expect(read.ok && Object.keys(read.value.payload).toSorted()).toEqual(["job_type", "messages"]);
  });
});
