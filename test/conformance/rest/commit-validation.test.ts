import { beforeAll, describe, expect, test } from "vitest";
import { type Fields, ISO, llm, newUser, task, UUID } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await share();
});

const REQUIRED = "Missing required fields: job_type, payload, user_id";
const U = "validator";
const T = { task_type: "classify", input: "x" };
const L = { prompt: "x" };

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = { a: value };
  return value;
}

describe("health", () => {
  test("[SPEC] GET /v1/health is the Health object and nothing else", async () => {
    const answer = await evm.api.get("/v1/health");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    expect(answer.body).toEqual({ status: "ok", workers_online: 0, network: "eip155:10143", timestamp: expect.stringMatching(ISO) });
    expect(Math.abs(Date.parse(String(answer.body.timestamp)) - Date.now())).toBeLessThan(5_000);
  });

  test("[SPEC] a query changes nothing", async () => {
    expect((await evm.api.get("/v1/health?x=1")).status).toBe(200);
  });
});

describe("quote", () => {
  test.each([
    ["LLM_INFER", "FAST", "$0.010", "FAST"],
    ["LLM_INFER", "CHEAP", "$0.005", "CHEAP"],
    ["TASK", "FAST", "$0.003", "FAST"],
    ["TASK", "CHEAP", "$0.001", "CHEAP"],
    ["LLM_INFER", "AUTO", "$0.010", "FAST"],
    ["TASK", "AUTO", "$0.001", "CHEAP"],
    ["LLM_INFER", null, "$0.010", "FAST"],
    ["TASK", null, "$0.001", "CHEAP"],
    ["LLM_INFER", "", "$0.010", "FAST"],
    ["TASK", "", "$0.001", "CHEAP"],
  ])("[SPEC, API3] %s with policy %s costs %s as %s", async (type, policy, price, resolved) => {
    const answer = await evm.api.get(`/v1/quote?job_type=${type}${policy === null ? "" : `&policy=${policy}`}`);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      price,
      endpoint: `/v1/jobs/commit/${resolved.toLowerCase()}`,
      policy_resolved: resolved,
      network: "eip155:10143",
      expires_at: null,
    });
  });

  test.each(["", "?job_type=", "?job_type=llm_infer", "?job_type=OTHER", "?policy=FAST", "?job_type=TASK%20", "?job_type=%00"])(
    "[SPEC] an invalid or missing job_type is 400: /v1/quote%s",
    async (query) => {
      const answer = await evm.api.get(`/v1/quote${query}`);
      expect(answer.status).toBe(400);
      expect(answer.body.error).toContain("job_type");
    },
  );

  test.each(["fast", "BEST", "AUTO%20", "%20FAST", "null", "FAST,CHEAP"])("[API3] an invalid policy is 400: %s", async (policy) => {
    const answer = await evm.api.get(`/v1/quote?job_type=TASK&policy=${policy}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toContain("policy");
  });
});

describe("a good commit", () => {
  const good: [string, unknown][] = [
    ["TASK classify", { job_type: "TASK", user_id: U, payload: { job_type: "TASK", ...T } }],
    ["TASK summarize", { job_type: "TASK", user_id: U, payload: { ...T, task_type: "summarize" } }],
    ["TASK extract_json", { job_type: "TASK", user_id: U, payload: { ...T, task_type: "extract_json" } }],
    ["no payload.job_type", { job_type: "LLM_INFER", user_id: U, payload: L }],
    ["max_tokens 1", { job_type: "LLM_INFER", user_id: U, payload: { ...L, max_tokens: 1 } }],
    ["max_tokens 32768", { job_type: "LLM_INFER", user_id: U, payload: { ...L, max_tokens: 32_768 } }],
    ["max_tokens 5.0", '{"job_type":"LLM_INFER","user_id":"v","payload":{"prompt":"x","max_tokens":5.0}}'],
    ["max_tokens null", { job_type: "LLM_INFER", user_id: U, payload: { ...L, max_tokens: null } }],
    ["payload.job_type null", { job_type: "TASK", user_id: U, payload: { job_type: null, ...T } }],
    ["privacy_class null", { job_type: "TASK", user_id: U, payload: T, privacy_class: null }],
    ["PUBLIC", { job_type: "TASK", user_id: U, payload: T, privacy_class: "PUBLIC" }],
    ["unknown members in the payload", { job_type: "TASK", user_id: U, payload: { ...T, extra: { a: [1, null] } } }],
    ["unknown top-level members", { job_type: "TASK", user_id: U, payload: T, extra: 1 }],
    ["user_id of 1 character", { job_type: "TASK", user_id: "u", payload: T }],
    ["user_id of 128 characters", { job_type: "TASK", user_id: "u".repeat(128), payload: T }],
    ["user_id beyond ASCII", { job_type: "TASK", user_id: "Zoë 用户 🦊", payload: T }],
    ["text of control characters", { job_type: "TASK", user_id: U, payload: { ...T, input: "a\u0000b\n\t\u007f" } }],
    ["text of every plane", { job_type: "LLM_INFER", user_id: U, payload: { prompt: "aé用🦊\u{10fffd}" } }],
    ["nesting of 30", { job_type: "TASK", user_id: U, payload: { ...T, extra: nested(28) } }],
  ];

  test.each(good)("[API2, SPEC] %s: 201 with a UUID and nothing else", async (_name, body) => {
    for (const tier of ["fast", "cheap"] as const) {
      const answer = await evm.api.tryCommit(body, tier);
      expect(answer.status, answer.text).toBe(201);
      expect(answer.body).toEqual({ job_id: expect.stringMatching(UUID) });
    }
  });

  test.each(["text/plain", "application/octet-stream", "application/x-www-form-urlencoded", "application/json; charset=utf-8"])(
    "[API2] a body of content type %s is parsed as JSON",
    async (type) => {
      const answer = await evm.api.tryCommit(task(newUser()), "cheap", { "content-type": type });
      expect(answer.status).toBe(201);
    },
  );

  test("[API2] a body without any content type is parsed as JSON", async () => {
    const response = await fetch(`${evm.url}/v1/jobs/commit/cheap`, { method: "POST", body: Buffer.from(JSON.stringify(task(newUser()))) });
    expect(response.status).toBe(201);
    const { job_id }: { job_id: string } = JSON.parse(await response.text());
    evm.api.tokens.set(job_id, response.headers.get("x-cancel-token") ?? "");
  });

  test("[SPEC] the job can be polled at once: pending, with the six documented fields", async () => {
    const before = Date.now();
    const id = await evm.api.commit(task(newUser()));
    const job = await evm.api.job(id);
    expect(job).toEqual({ id, status: "pending", result: null, receipt: null, created_at: expect.stringMatching(ISO), completed_at: null });
    expect(Math.abs(Date.parse(job.created_at) - before)).toBeLessThan(5_000);
  });

  test("[SPEC] two equal commits are two jobs", async () => {
    const body = task(newUser());
    expect(await evm.api.commit(body)).not.toBe(await evm.api.commit(body));
  });
});

describe("missing required fields", () => {
  const missing: [string, unknown][] = [
    ["an empty object", {}],
    ["no job_type", { user_id: U, payload: T }],
    ["no user_id", { job_type: "TASK", payload: T }],
    ["no payload", { job_type: "TASK", user_id: U }],
  ];

  test.each(missing)("[API2, SPEC] %s: 400 with the message that lists them", async (_name, body) => {
    for (const tier of ["fast", "cheap"] as const) {
      const answer = await evm.api.tryCommit(body, tier);
      expect(answer.status).toBe(400);
      expect(answer.body).toEqual({ error: REQUIRED });
    }
  });
});

describe("a bad commit", () => {
  const task_ = (changes: Fields, payload: unknown = T): Fields => ({ job_type: "TASK", user_id: U, payload, ...changes });
  const llm_ = (payload: unknown): Fields => ({ job_type: "LLM_INFER", user_id: U, payload });
  const bad: [string, unknown][] = [
    ["no body", ""],
    ["spaces", "   "],
    ["broken JSON", '{"job_type":'],
    ["JSON and more", `${JSON.stringify(task(U))} x`],
    ["JSON with a comment", `/* */ ${JSON.stringify(task(U))}`],
    ["an array", [task(U)]],
    ["null", "null"],
    ["a number", "1"],
    ["a string", '"x"'],
    ["an unknown job_type", task_({ job_type: "IMAGE" })],
    ["a lower-case job_type", task_({ job_type: "task" })],
    ["job_type as an array", task_({ job_type: ["TASK"] })],
    ["job_type null", task_({ job_type: null })],
    ["job_type __proto__", task_({ job_type: "__proto__" })],
    ["user_id a number", task_({ user_id: 5 })],
    ["user_id an object", task_({ user_id: {} })],
    ["user_id null", task_({ user_id: null })],
    ["user_id empty", task_({ user_id: "" })],
    ["user_id of 129", task_({ user_id: "u".repeat(129) })],
    ["user_id with a control character", task_({ user_id: "a\u0000" })],
    ["user_id with a line end", task_({ user_id: "a\nb" })],
    ["user_id with DEL", task_({ user_id: "a\u007f" })],
    ["user_id with a lone surrogate", '{"job_type":"TASK","user_id":"a\\ud800","payload":{"task_type":"classify","input":"x"}}'],
    ["payload null", task_({}, null)],
    ["payload a string", task_({}, "x")],
    ["payload an array", task_({}, [T])],
    ["payload of another job_type", task_({}, { job_type: "LLM_INFER", ...T })],
    ["payload.job_type a number", task_({}, { job_type: 1, ...T })],
    ["no task_type", task_({}, { input: "x" })],
    ["an unknown task_type", task_({}, { task_type: "translate", input: "x" })],
    ["task_type toString", task_({}, { task_type: "toString", input: "x" })],
    ["no input", task_({}, { task_type: "classify" })],
    ["an empty input", task_({}, { ...T, input: "" })],
    ["input a number", task_({}, { ...T, input: 1 })],
    ["input with a lone surrogate", '{"job_type":"TASK","user_id":"a","payload":{"task_type":"classify","input":"x\\udc00y"}}'],
    ["an unknown member with a lone surrogate", '{"job_type":"TASK","user_id":"a","payload":{"task_type":"classify","input":"x","e":["\\ud83d"]}}'],
    ["a member name with a lone surrogate", '{"job_type":"TASK","user_id":"a","payload":{"task_type":"classify","input":"x","\\ud83d":1}}'],
    [
      "bytes that are not UTF-8",
      Buffer.concat([
        Buffer.from('{"job_type":"TASK","user_id":"a","payload":{"task_type":"classify","input":"x'),
        Buffer.from([0xff, 0xc3]),
        Buffer.from('"}}'),
      ]),
    ],
    ["no prompt", llm_({})],
    ["an empty prompt", llm_({ prompt: "" })],
    ["prompt null", llm_({ prompt: null })],
    ["prompt an array", llm_({ prompt: ["x"] })],
    ["a TASK payload for LLM_INFER", llm_(T)],
    ["max_tokens 0", llm_({ ...L, max_tokens: 0 })],
    ["max_tokens -1", llm_({ ...L, max_tokens: -1 })],
    ["max_tokens 1.5", llm_({ ...L, max_tokens: 1.5 })],
    ["max_tokens 32769", llm_({ ...L, max_tokens: 32_769 })],
    ["max_tokens 1e999", '{"job_type":"LLM_INFER","user_id":"a","payload":{"prompt":"x","max_tokens":1e999}}'],
    ["max_tokens a string", llm_({ ...L, max_tokens: "5" })],
    ["max_tokens true", llm_({ ...L, max_tokens: true })],
    ["privacy_class unknown", task_({ privacy_class: "SECRET" })],
    ["privacy_class lower case", task_({ privacy_class: "private" })],
    ["privacy_class true", task_({ privacy_class: true })],
    ["privacy_class empty", task_({ privacy_class: "" })],
    ["PRIVATE under another name", task_({ privacy: "PRIVATE" })],
    ["PRIVATE in the payload", task_({}, { ...T, privacy_class: "PRIVATE" })],
    ["nesting of 40", task_({}, { ...T, extra: nested(38) })],
    ["nesting of 100,000", `{"job_type":"TASK","user_id":"a","payload":{"task_type":"classify","input":"x","e":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`],
  ];

  test.each(bad)("[API2, LM1, SPEC] %s: 400 with an error and no job", async (_name, body) => {
    for (const tier of ["fast", "cheap"] as const) {
      const answer = await evm.api.tryCommit(body, tier);
      expect(answer.status, answer.text).toBe(400);
      expect(answer.body.error).toEqual(expect.any(String));
      expect(answer.body.error).not.toBe("");
      expect(answer.body).not.toHaveProperty("job_id");
    }
  });

  test("[API2] a bad max_tokens does not matter for a TASK, or is refused; it is no server error", async () => {
    expect([201, 400]).toContain((await evm.api.tryCommit(task_({}, { ...T, max_tokens: "x" }))).status);
  });

  test("[LM1] depth 32 is allowed and depth 34 is not, however it is counted", async () => {
    // The nesting is body > payload > extra…; `nested(n)` adds n objects.
    expect((await evm.api.tryCommit(task_({}, { ...T, extra: nested(29) }))).status).toBe(201);
    expect((await evm.api.tryCommit(task_({}, { ...T, extra: nested(32) }))).status).toBe(400);
  });

  test("[API2] a whole LLM_INFER commit works on both tiers after all that", async () => {
    expect((await evm.api.tryCommit(llm(newUser()), "fast")).status).toBe(201);
    expect((await evm.api.tryCommit(llm(newUser()), "cheap")).status).toBe(201);
  });
});
