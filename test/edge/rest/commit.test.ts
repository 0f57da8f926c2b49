import { LIMITS } from "../../../src/protocol/limits.ts";
import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { NoTrustedWorker } from "../../../src/protocol/rest.ts";
import { CommitResponse, Job } from "../../../src/protocol/job.ts";
import { LLM, TASK, failingDb, failingHub, freshInstance, post, read, refusal, rest } from "./rest.ts";
import { FakeWorker, recorded } from "./worker.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(freshInstance);

const CHEAP = "/v1/jobs/commit/cheap";
const FAST = "/v1/jobs/commit/fast";
const OnlyId = z.strictObject({ job_id: z.uuid() });

async function commit(body: unknown, headers: Record<string, string> = {}, path = CHEAP): Promise<string> {
  const response = await post(path, body, headers);
  expect(response.status).toBe(201);
  return (await read(response, CommitResponse)).job_id;
}

async function poll(id: string): Promise<Job> {
  return await read(await rest(`/v1/jobs/${id}`), z.strictObject(Job.shape));
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

describe("201", () => {
  test.each([
    [FAST, TASK],
    [CHEAP, TASK],
    [FAST, LLM],
    [CHEAP, LLM],
  ])("[SPEC] %s takes any job type and answers the job_id and nothing else", async (path, body) => {
    const response = await post(path, body);
    expect(response.status).toBe(201);
    const { job_id } = await read(response, OnlyId);
    expect(await poll(job_id)).toMatchObject({ id: job_id, status: "pending", result: null, receipt: null, completed_at: null });
  });

  test.each(["", "text/plain", "application/x-www-form-urlencoded"])("[API2] the content type %o does not matter", async (type) => {
    await commit(TASK, { "content-type": type });
  });

  test("[API2] a byte order mark is skipped, unknown members are ignored", async () => {
    const response = await post(CHEAP, `\uFEFF${JSON.stringify({ ...TASK, more: { deep: [1] } })}`);
    expect(response.status).toBe(201);
  });

  test("[API2] of two members with the same name the last counts", async () => {
    const text = JSON.stringify(TASK).replace('"job_type":"TASK"', '"job_type":"VIDEO","job_type":"TASK"');
    expect((await post(CHEAP, text)).status).toBe(201);
  });

  test("[WS8] the payload reaches the worker unchanged; an absent job_type is added as the first member", async () => {
    const payload = JSON.parse('{"z":1,"input":"good","__proto__":{"a":1},"task_type":"classify","b":{"y":1,"x":[1.5,null]}}');
    const seen = await payloadSeen({ ...TASK, payload });
    expect(JSON.stringify(seen)).toBe(`{"job_type":"TASK",${JSON.stringify(payload).slice(1)}`);
    const own = { input: "good", task_type: "classify", job_type: "TASK" };
    expect(JSON.stringify(await payloadSeen({ ...TASK, payload: own }))).toBe(JSON.stringify(own));
  });
});

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
  const bad: [name: string, body: unknown, names: string][] = [
    ["no body", "", "user_id"],
    ["broken JSON", '{"job_type":"TASK"', "user_id"],
    ["null", "null", "user_id"],
    ["an array", "[]", "user_id"],
    ["a string", '"TASK"', "user_id"],
    ["an empty object", {}, "Missing required fields: job_type, payload, user_id"],
    ["no job_type", { ...TASK, job_type: undefined }, "Missing required fields: job_type, payload, user_id"],
    ["no user_id", { ...TASK, user_id: undefined }, "Missing required fields: job_type, payload, user_id"],
    ["no payload", { ...TASK, payload: null }, "Missing required fields: job_type, payload, user_id"],
    ["an unknown job_type", { ...TASK, job_type: "VIDEO" }, "job_type"],
    ["a payload that is a string", { ...TASK, payload: "x" }, "payload"],
    ["a payload that is an array", { ...TASK, payload: [] }, "payload"],
    ["payload.job_type of the other kind", { ...TASK, payload: { ...TASK.payload, job_type: "LLM_INFER" } }, "payload.job_type"],
    ["no task_type", { ...TASK, payload: { input: "x" } }, "payload.task_type"],
    ["an unknown task_type", { ...TASK, payload: { task_type: "translate", input: "x" } }, "payload.task_type"],
    ["an empty input", { ...TASK, payload: { task_type: "classify", input: "" } }, "payload.input"],
    ["an input that is a number", { ...TASK, payload: { task_type: "classify", input: 5 } }, "payload.input"],
    ["an empty prompt", { ...LLM, payload: { prompt: "" } }, "payload.prompt"],
    ...[0, -1, 1.5, LIMITS.maxTokens + 1, "5", 1e308, true].map((max): [string, unknown, string] => [
      `max_tokens ${JSON.stringify(max)}`,
      { ...LLM, payload: { prompt: "x", max_tokens: max } },
      "payload.max_tokens",
    ]),
    ["an unknown privacy_class", { ...TASK, privacy_class: "SECRET" }, "privacy_class"],
    ["a user_id that is a number", { ...TASK, user_id: 5 }, "user_id"],
    ["an empty user_id", { ...TASK, user_id: "" }, "user_id"],
    ["a user_id of one character too many", { ...TASK, user_id: "😀".repeat(LIMITS.userIdChars + 1) }, "user_id"],
    ["a user_id with a control character", { ...TASK, user_id: "a\u0000b" }, "user_id"],
    ["a lone surrogate in the user_id", { ...TASK, user_id: "a\ud800" }, "user_id"],
    ["a lone surrogate in the input", '{"job_type":"TASK","user_id":"u","payload":{"task_type":"classify","input":"a\\ud800"}}', "payload"],
    ["a lone surrogate elsewhere in the payload", '{"job_type":"TASK","user_id":"u","payload":{"task_type":"classify","input":"a","\\udc00":1}}', "payload"],
    [
      "JSON nested too deeply",
      JSON.stringify(TASK).replace('"good"', `"good","x":${"[".repeat(LIMITS.jsonDepth - 1)}${"]".repeat(LIMITS.jsonDepth - 1)}`),
      "user_id",
    ],
    ["a million brackets", "[".repeat(500_000), "user_id"],
  ];
  test.each(bad)("[API2] %s", async (_name, body, names) => {
    const error = await refusal(await post(CHEAP, body), 400);
    expect(error).toContain(names);
    expect(error).toContain("job_type, payload, user_id");
  });

  test("[API2] bytes that are not UTF-8", async () => {
    const body = new TextEncoder().encode(JSON.stringify(TASK));
    body[body.indexOf("g".charCodeAt(0))] = 0xff;
    await refusal(await rest(CHEAP, { method: "POST", body }), 400);
  });

  test("[LM1] a user_id of the largest length, the largest max_tokens and the deepest body are accepted", async () => {
    await commit({ ...TASK, user_id: "😀".repeat(LIMITS.userIdChars) });
    await commit({ ...LLM, payload: { prompt: "x", max_tokens: LIMITS.maxTokens } });
    const nested = `${"[".repeat(LIMITS.jsonDepth - 2)}${"]".repeat(LIMITS.jsonDepth - 2)}`;
    expect((await post(CHEAP, JSON.stringify(TASK).replace('"good"', `"good","x":${nested}`))).status).toBe(201);
    expect((await post(CHEAP, TASK, { "idempotency-key": "k".repeat(LIMITS.idempotencyKeyChars) })).status).toBe(201);
  });

  test.each(["", "k".repeat(LIMITS.idempotencyKeyChars + 1), "a\tb"])("[API5] Idempotency-Key %o", async (key) => {
    expect(await refusal(await post(CHEAP, TASK, { "idempotency-key": key }), 400)).toContain("Idempotency-Key");
  });
});

describe("413 and 415", () => {
  const withInput = (length: number) => ({ ...TASK, payload: { task_type: "classify", input: "x".repeat(length) } });
  const streamed = (text: string) => new Blob([text]).stream();

  test("[LM1] a body of more than 512 KiB, with or without Content-Length", async () => {
    const text = " ".repeat(LIMITS.bodyBytes) + JSON.stringify(TASK);
    expect(await refusal(await post(CHEAP, text), 413)).toBe("payload_too_large");
    expect(await refusal(await rest(CHEAP, { method: "POST", body: streamed(text) }), 413)).toBe("payload_too_large");
    expect(await refusal(await rest(CHEAP, { method: "POST", body: streamed(text), headers: { "content-length": "10" } }), 413)).toBe("payload_too_large");
  });

  test("[LM1] a body of exactly 512 KiB is read", async () => {
    const text = JSON.stringify(TASK);
    expect((await post(CHEAP, text + " ".repeat(LIMITS.bodyBytes - text.length))).status).toBe(201);
    await refusal(await post(CHEAP, text + " ".repeat(LIMITS.bodyBytes - text.length + 1)), 413);
  });

  test("[LM1] an input of 256 KiB is accepted, one byte of UTF-8 more is not", async () => {
    await commit(withInput(LIMITS.textBytes));
    expect(await refusal(await post(CHEAP, withInput(LIMITS.textBytes + 1)), 413)).toBe("payload_too_large");
    const prompt = "é".repeat(LIMITS.textBytes / 2);
    await commit({ ...LLM, payload: { prompt } });
    await refusal(await post(CHEAP, { ...LLM, payload: { prompt: `${prompt}x` } }), 413);
  });

  test.each(["gzip", "br", "gzip, identity"])("[LM1] Content-Encoding %s is 415", async (encoding) => {
    await refusal(await post(CHEAP, TASK, { "content-encoding": encoding }), 415);
  });

  test("[LM1] Content-Encoding identity is accepted", async () => {
    await commit(TASK, { "content-encoding": "identity" });
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

  test("[PY4] the resource is on PUBLIC_HOST where one is set, whatever Host the request names", async () => {
    const response = await gated(FAST, TASK, { "x-forwarded-host": "evil.example" }, { PUBLIC_HOST: "router.example:8443" });
    expect(await response.json()).toMatchObject({ resource: { url: `https://router.example:8443${FAST}` } });
  });

  test.each(["", "false"])("[PY1] TESTNET_MODE %o gates", async (mode) => {
    expect((await post(FAST, TASK, {}, { TESTNET_MODE: mode })).status).toBe(402);
  });

  test("[PY1] nothing else is gated", async () => {
    for (const path of ["/v1/health", "/v1/quote?job_type=TASK", "/v1/trust/list?user_id=a"]) {
      expect((await rest(path, {}, { TESTNET_MODE: "false" })).status).toBe(200);
    }
    expect((await post("/v1/trust/create", { user_id: "a" }, {}, { TESTNET_MODE: "false" })).status).toBe(201);
  });
});

describe("422", () => {
  test("[SPEC, JB8] a PRIVATE job without a trusted worker is refused, and can be polled as failed", async () => {
    const response = await post(CHEAP, { ...TASK, privacy_class: "PRIVATE" });
    expect(response.status).toBe(422);
    const { job_id } = await read(response, z.strictObject(NoTrustedWorker.shape));
    expect(await poll(job_id)).toMatchObject({ status: "failed", result: { error: "no_trusted_worker" }, receipt: null, completed_at: null });
  });

  test("[SPEC] a PRIVATE job goes to the paired worker and to no other", async () => {
    const stranger = await FakeWorker.connect();
    const worker = await FakeWorker.connect();
    const { pairing_code } = await (await post("/v1/trust/create", { user_id: "private-1" })).json<{ pairing_code: string }>();
    expect((await post("/v1/trust/claim", { pairing_code, provider_pubkey: worker.key.publicKey })).status).toBe(200);
    const id = await commit({ ...TASK, user_id: "private-1", privacy_class: "PRIVATE" });
    expect(await worker.complete({ sentiment: "positive", confidence: 1 })).toMatchObject({ job_id: id, privacy_class: "PRIVATE" });
    expect(await poll(id)).toMatchObject({ status: "completed", receipt: { provider_pubkey: worker.key.publicKey } });
    expect((await post(CHEAP, { ...TASK, user_id: "private-2", privacy_class: "PRIVATE" })).status).toBe(422);
    for (const each of [stranger, worker]) await each.close();
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
  const key = () => ({ "idempotency-key": crypto.randomUUID() });

  test("[API5] the same key, endpoint and fields give the same job, whatever the order of members", async () => {
    const headers = key();
    const id = await commit(TASK, headers);
    expect(await commit(TASK, headers)).toBe(id);
    const { input, task_type } = TASK.payload;
    expect(await commit({ privacy_class: "PUBLIC", payload: { input, job_type: "TASK", task_type }, user_id: TASK.user_id, job_type: "TASK" }, headers)).toBe(
      id,
    );
  });

  test("[API5] at the same moment they give one job", async () => {
    const headers = key();
    const ids = await Promise.all(Array.from({ length: 10 }, () => commit(TASK, headers)));
    expect(new Set(ids).size).toBe(1);
  });

  test.each<[string, string, unknown]>([
    ["another endpoint", FAST, TASK],
    ["another payload", CHEAP, { ...TASK, payload: { ...TASK.payload, input: "bad" } }],
    ["another member that only travels along", CHEAP, { ...TASK, payload: { ...TASK.payload, extra: 1 } }],
    ["another privacy class", CHEAP, { ...TASK, privacy_class: "PRIVATE" }],
    ["another job type", CHEAP, LLM],
  ])("[API5] %s under the same key is 409", async (_name, path, body) => {
    const headers = key();
    await commit(TASK, headers);
    expect(await refusal(await post(path, body, headers), 409)).toBe("idempotency_key_reused");
  });

  test("[API5] another user may use the same key", async () => {
    const headers = key();
    const id = await commit(TASK, headers);
    expect(await commit({ ...TASK, user_id: "someone else" }, headers)).not.toBe(id);
  });

  test("[API5] only 201s are stored: after a 400 or a 422 the key can be used again", async () => {
    const headers = key();
    await refusal(await post(CHEAP, { ...TASK, job_type: "VIDEO" }, headers), 400);
    expect((await post(CHEAP, { ...TASK, privacy_class: "PRIVATE" }, headers)).status).toBe(422);
    await commit(TASK, headers);
  });

  test("[API5] keys of 1 and of 255 characters, with spaces and signs", async () => {
    for (const value of ["k", "~".repeat(255), 'a "b" {c}; d,e']) await commit({ ...TASK, user_id: crypto.randomUUID() }, { "idempotency-key": value });
  });
});

describe("Prefer: wait", () => {
  test("[API6] answers as soon as the job has ended, with the job in it", async () => {
    const worker = await FakeWorker.connect();
    const [response] = await Promise.all([post(CHEAP, TASK, { prefer: "wait=20" }), worker.complete({ sentiment: "positive" })]);
    expect(response.status).toBe(201);
    expect(response.headers.get("preference-applied")).toBe("wait=20");
    const body = await read(response, z.strictObject({ job_id: z.uuid(), job: z.strictObject(Job.shape) }));
    expect(body.job).toMatchObject({ id: body.job_id, status: "completed", result: { sentiment: "positive" }, receipt: { job_id: body.job_id } });
    expect(await poll(body.job_id)).toEqual(body.job);
    await worker.close();
  });

  test("[API6] answers with the present state when the time is over", async () => {
    const response = await post(CHEAP, { ...TASK, user_id: "nobody serves" }, { prefer: 'respond-async;q="a,b", WAIT = "1" ; x=y' });
    expect(response.headers.get("preference-applied")).toBe("wait=1");
    expect(await response.json()).toMatchObject({ job: { status: "pending" } });
  });

  test.each(["wait", "wait=", "wait=-1", "wait=1.5", "wait=ten", "wait=0", "respond-async", "waiting=5", 'x="wait=5, wait=6"', ";,=,"])(
    "[API6] Prefer: %s is ignored",
    async (prefer) => {
      const response = await post(CHEAP, TASK, { prefer });
      expect(response.headers.has("preference-applied")).toBe(false);
      await read(response, OnlyId);
    },
  );

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
