import { LIMITS } from "../../../src/protocol/limits.ts";
import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { NoTrustedWorker } from "../../../src/protocol/rest.ts";
import { CommitResponse } from "../../../src/protocol/job.ts";
import { LLM, TASK, failingDb, failingHub, freshInstance, post, read, refusal } from "./rest.ts";
import { FakeWorker, recorded } from "./worker.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(freshInstance);

const CHEAP = "/v1/jobs/commit/cheap";
const FAST = "/v1/jobs/commit/fast";
const OnlyId = z.strictObject({ job_id: z.uuid() });

async function commit(body: unknown, headers: Record<string, string> = {}): Promise<string> {
  const response = await post(CHEAP, body, headers);
  expect(response.status).toBe(201);
  return (await read(response, CommitResponse)).job_id;
}

/** The payload that D1 or the hub keeps: the text that the worker gets. */
async function payloadSeen(body: unknown): Promise<unknown> {
  const worker = await FakeWorker.connect();
  try {
    await commit(body);
    const job = await worker.complete({ ok: true });
    return job.payload;
  } finally {
    await worker.close();
  }
}

describe("[API2] an optional member that is null counts as absent", () => {
  const seen = async (body: object): Promise<string> => JSON.stringify(await payloadSeen(body));

  test("[WS8] payload.job_type null: the worker sees the job's type, once and first", async () => {
    expect(await seen({ ...TASK, payload: { input: "good", job_type: null, task_type: "classify" } })).toBe(
      '{"job_type":"TASK","input":"good","task_type":"classify"}',
    );
  });

  test("[WS8] a payload.job_type that occurs twice, the second time as null, is replaced by the job's type", async () => {
    const worker = await FakeWorker.connect();
    const text = JSON.stringify(TASK).replace(
      /"payload":\{[^}]*\}/,
      '"payload":{"job_type":"LLM_INFER","task_type":"classify","input":"good","job_type":null}',
    );
    await commit(text);
    const { payload } = await worker.complete({ ok: true });
    expect(JSON.stringify(payload)).toBe('{"job_type":"TASK","task_type":"classify","input":"good"}');
    await worker.close();
  });

  test("max_tokens null reaches the worker unchanged", async () => {
    expect(await seen({ ...LLM, payload: { prompt: "Hi", max_tokens: null } })).toBe('{"job_type":"LLM_INFER","prompt":"Hi","max_tokens":null}');
  });

  test("privacy_class null is PUBLIC", async () => {
    const worker = await FakeWorker.connect();
    await commit({ ...TASK, privacy_class: null });
    expect(await worker.complete({ ok: true })).toMatchObject({ privacy_class: "PUBLIC" });
    await worker.close();
  });

  test("[API5] with one key a member that is null and an absent one are the same commit; for an unknown member they are not", async () => {
    const headers = { "idempotency-key": crypto.randomUUID() };
    const payload = { prompt: "Hi" };
    const id = await commit({ ...LLM, payload }, headers);
    expect(await commit({ ...LLM, payload: { max_tokens: null, job_type: null, ...payload }, privacy_class: null }, headers)).toBe(id);
    expect((await post(CHEAP, { ...LLM, payload: { ...payload, extra: null } }, headers)).status).toBe(409);
  });
});

describe("400", () => {
  test.each<[name: string, body: unknown, names: string]>([
    ["a body that cannot be read", '{"job_type":"TASK"', "valid JSON"],
    ["a wrong field", { ...TASK, job_type: "VIDEO" }, "job_type must be"],
  ])("[API2] %s: the answer says what is wrong, and names the required fields", async (_name, body, names) => {
    const error = await refusal(await post(CHEAP, body), 400);
    expect(error).toContain(names);
    expect(error).toContain("job_type, payload, user_id");
  });

  test.each([
    ["0", 1],
    ["{}", 2],
  ])("[API2, LM1] as many wrong messages as a body can hold: %s", async (item, values) => {
    const messages = Array.from({ length: Math.floor((LIMITS.jsonValues - 10) / values) }, () => item).join(",");
    const body = `{"job_type":"LLM_INFER","user_id":"u","payload":{"messages":[${messages}]}}`;
    expect(await refusal(await post(CHEAP, body), 400)).toContain("payload.messages must have at most 2000 entries");
  });

  test.each(["", "k".repeat(LIMITS.idempotencyKeyChars + 1), "a\tb"])("[API5] Idempotency-Key %o", async (key) => {
    expect(await refusal(await post(CHEAP, TASK, { "idempotency-key": key }), 400)).toContain("Idempotency-Key");
  });
});

describe("413", () => {
  const withInput = (length: number) => ({ ...TASK, payload: { task_type: "classify", input: "x".repeat(length) } });
  test("[LM1] an input of 256 KiB is accepted, one byte of UTF-8 more is not", async () => {
    await commit(withInput(LIMITS.textBytes));
    expect(await refusal(await post(CHEAP, withInput(LIMITS.textBytes + 1)), 413)).toBe("payload_too_large");
    const prompt = "é".repeat(LIMITS.textBytes / 2);
    await commit({ ...LLM, payload: { prompt } });
    await refusal(await post(CHEAP, { ...LLM, payload: { prompt: `${prompt}x` } }), 413);
  });
});

describe("402", () => {
  const gated = (path: string, body: unknown, headers: Record<string, string> = {}, more: Record<string, unknown> = {}) =>
    post(path, body, headers, { TESTNET_MODE: "false", ...more });

  test("[PY5] a request without a valid payment stores nothing", async () => {
    const before = await env.DB.prepare("SELECT count(*) AS n FROM jobs").first("n");
    for (const headers of [{}, { "x-payment": "e30=" }, { "payment-signature": "x" }]) expect((await gated(FAST, TASK, headers)).status).toBe(402);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM jobs").first("n")).toBe(before);
  });

  test.each(["", "false", "TRUE", "1"])("[SPEC, PY1] TESTNET_MODE %o gates", async (mode) => {
    expect((await post(FAST, TASK, {}, { TESTNET_MODE: mode })).status).toBe(402);
  });
});

describe("503", () => {
  test("[API1] if the hub cannot be reached: overloaded with Retry-After", async () => {
    const response = await post(CHEAP, TASK, {}, failingHub({ retryable: true }));
    expect(await refusal(response, 503)).toBe("overloaded");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("[API1] if D1 cannot be reached only a PRIVATE commit fails", async () => {
    expect(await refusal(await post(CHEAP, { ...TASK, privacy_class: "PRIVATE" }, {}, { DB: failingDb() }), 503)).toBe("overloaded");
    expect((await post(CHEAP, TASK, {}, { DB: failingDb() })).status).toBe(201);
  });

  test("[JB9] a commit whose first delivery was lost is delivered again, as the same job", async () => {
    const hub = failingHub({ retryable: true }, 1);
    const response = await post(CHEAP, TASK, {}, hub);
    expect(response.status).toBe(201);
    expect(hub.calls()).toBe(2);
  });

  /** A hub whose first answer to a commit is lost, and the ids of all commits that reached it. */
  function forgetfulHub(): { HUB: unknown; delivered: string[] } {
    const delivered: string[] = [];
    const getByName = (name: string) => {
      const stub = env.HUB.getByName(name);
      return {
        commit: async (input: Parameters<typeof stub.commit>[0]) => {
          const answer = await stub.commit(input);
          delivered.push(input.id);
          if (delivered.length === 1) throw Object.assign(new Error("lost"), { retryable: true });
          return answer;
        },
      };
    };
    return { HUB: { getByName }, delivered };
  }

  test("[JB9] a commit whose answer was lost starts no second job", async () => {
    const hub = forgetfulHub();
    const { job_id } = await read(await post(CHEAP, TASK, {}, hub), OnlyId);
    expect(hub.delivered).toEqual([job_id, job_id]);
  });

  test("[JB8] a refusal whose answer was lost stays a refusal", async () => {
    const hub = forgetfulHub();
    const response = await post(CHEAP, { ...TASK, privacy_class: "PRIVATE" }, {}, hub);
    expect(response.status).toBe(422);
    expect((await read(response, NoTrustedWorker)).job_id).toBe(hub.delivered[0]);
  });
});

describe("Idempotency-Key", () => {
  test("[API5] keys of 1 and of 255 characters, with spaces and signs", async () => {
    for (const value of ["k", "~".repeat(255), 'a "b" {c}; d,e']) await commit({ ...TASK, user_id: crypto.randomUUID() }, { "idempotency-key": value });
  });
});

describe("Prefer: wait", () => {
  test("[API5, API6] a repeated commit may wait too, also for a job that only D1 has", async () => {
    const worker = await FakeWorker.connect();
    const headers = { "idempotency-key": crypto.randomUUID() };
    const [id] = await Promise.all([commit({ ...TASK, user_id: "again" }, headers), worker.complete({ a: 1 })]);
    await recorded(id);
    await worker.close();
    // The hub's memory is lost too.
    await abortAllDurableObjects();
    const response = await post(CHEAP, { ...TASK, user_id: "again" }, { ...headers, prefer: "wait=5" });
    expect(response.headers.get("preference-applied")).toBe("wait=5");
    expect(await response.json()).toMatchObject({ job_id: id, job: { status: "completed", result: { a: 1 } } });
  });
});
