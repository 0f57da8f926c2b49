// The endpoints of OpenAI's API, asked as its clients ask [API9].
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { share, type Subject } from "../support/coordinator.ts";
import { RawHttp } from "../support/raw-http.ts";
import { within } from "../support/wait.ts";
import { type Frame, fullWorker, type WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const RESULT = { finish_reason: "stop", model: "ant", output: "Hello there.", usage: { completion_tokens: 3, prompt_tokens: 5 } };
/** Members that ask for nothing, and one that clients of OpenAI send by habit. */
const NOTHING = { tools: [], tool_choice: "auto", function_call: "none", logit_bias: {}, web_search_options: null, store: true };
const CHAT = { model: "ant", messages: [{ role: "user", content: "Say hello." }] };

beforeAll(async () => {
  evm = await share();
});

beforeEach(async () => {
  await within(
    10_000,
    async () => ((await evm.api.get("/v1/health")).body.workers_online === 0 ? true : undefined),
    () => "the last test's workers to leave",
  );
});

const worker = (changes: object = {}) => fullWorker(evm.socketUrl, { features: ["ack", "chat"], models: ["ant"], ...changes });
const ask = (body: unknown, path = "/v1/chat/completions", headers?: Record<string, string>) => evm.api.post(path, body, headers);
const next = (one: WorkerSocket, from = 0): Promise<Frame> => one.frame("job_assign", { from });

/** The data of a stream of server-sent events, parsed; comments are left out. */
const dataOf = (text: string): unknown[] =>
  text
    .split("\n\n")
    .filter((part) => part.startsWith("data: "))
    .map((part) => (part === "data: [DONE]" ? "[DONE]" : JSON.parse(part.slice(6))));

test("[API9] a chat is answered as a chat completion, with the job's id and receipt", async () => {
  const one = await worker();
  const asked = ask({ ...CHAT, user: "ann", temperature: 0.5, max_completion_tokens: 20, metadata: { a: "b" }, stream: null, ...NOTHING });
  const assign = await next(one);
  expect(assign).toMatchObject({ job_type: "LLM_INFER", policy: "FAST", privacy_class: "PUBLIC" });
  expect(assign.payload).toEqual({
    job_type: "LLM_INFER",
    model: "ant",
    messages: CHAT.messages,
    prompt: "Say hello.",
    temperature: 0.5,
    max_tokens: 20,
    metadata: { a: "b" },
  });
  await one.complete(String(assign.job_id), RESULT);
  const { status, body, headers } = await asked;
  expect(status).toBe(200);
  expect(headers.get("x-job-id")).toBe(assign.job_id);
  const { receipt } = await evm.api.job(String(assign.job_id));
  expect(body).toEqual({
    id: `chatcmpl-${assign.job_id}`,
    object: "chat.completion",
    created: expect.any(Number),
    model: "ant",
    choices: [{ index: 0, message: { role: "assistant", content: "Hello there.", refusal: null }, logprobs: null, finish_reason: "stop" }],
    usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
    compute_router: { job_id: assign.job_id, receipt, attempt: 1 },
  });
});

test("[API9] a completion is answered as a text completion; a text in parts and a developer are read", async () => {
  const one = await worker();
  const plain = ask({ model: "auto", prompt: ["Say hello."], max_tokens: 5 }, "/v1/completions");
  const first = await next(one);
  expect(first.payload).toEqual({ job_type: "LLM_INFER", model: "auto", prompt: "Say hello.", max_tokens: 5 });
  await one.complete(String(first.job_id), { ...RESULT, finish_reason: "length" });
  expect((await plain).body).toMatchObject({ object: "text_completion", choices: [{ text: "Hello there.", finish_reason: "length" }] });
  const chat = ask({
    messages: [
      {
        role: "developer",
        content: [
          { type: "text", text: "Be " },
          { type: "text", text: "brief." },
        ],
      },
      { role: "user", content: "Hi" },
    ],
  });
  const second = await next(one, one.frames.length);
  expect(second.payload).toMatchObject({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ],
  });
  await one.complete(String(second.job_id), RESULT);
  expect((await chat).status).toBe(200);
});

test("[API9] a stream sends the text as it comes, then the usage and the receipt, then [DONE]", async () => {
  const one = await worker();
  const asked = ask({ ...CHAT, stream: true, stream_options: { include_usage: true } });
  const assign = await next(one);
  one.ack(assign);
  one.progress(assign, 0, "Hello ");
  one.progress(assign, 1, "there");
  await one.complete(String(assign.job_id), RESULT);
  const { status, text, headers } = await asked;
  expect([status, headers.get("content-type"), headers.get("x-job-id")]).toEqual([200, "text/event-stream", assign.job_id]);
  // A proxy must not hold the text back.
  expect(headers.get("x-accel-buffering")).toBe("no");
  const chunks = dataOf(text) as { choices: { delta: { role?: string; content?: string }; finish_reason: string | null }[] }[];
  expect(chunks.pop()).toBe("[DONE]");
  expect(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("")).toBe("Hello there.");
  expect(chunks[0]).toMatchObject({
    object: "chat.completion.chunk",
    id: `chatcmpl-${assign.job_id}`,
    choices: [{ delta: { role: "assistant" }, finish_reason: null }],
  });
  expect(chunks.at(-2)).toMatchObject({ choices: [{ delta: {}, finish_reason: "stop" }] });
  expect(chunks.at(-1)).toMatchObject({
    choices: [],
    usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
    compute_router: { job_id: assign.job_id, attempt: 1, receipt: { job_id: assign.job_id } },
  });
});

test("[API9] without usage the last chunk has the receipt; a worker that streams nothing sends its text in one chunk", async () => {
  const one = await worker();
  const asked = ask({ ...CHAT, stream: true });
  const assign = await next(one);
  await one.complete(String(assign.job_id), RESULT);
  const chunks = dataOf((await asked).text);
  expect(chunks).toMatchObject([
    { choices: [{ delta: { role: "assistant", content: "Hello there." } }] },
    // The receipt covers the usage, so without it nobody could check the receipt.
    { choices: [{ delta: {}, finish_reason: "stop" }], compute_router: { job_id: assign.job_id, usage: { prompt_tokens: 5, completion_tokens: 3 } } },
    "[DONE]",
  ]);
  expect(chunks[1]).not.toHaveProperty("usage");
});

test("[API9] text whose beginning is missing is held back: the whole text comes with the end", async () => {
  const one = await worker();
  const asked = ask({ ...CHAT, stream: true });
  const assign = await next(one);
  one.ack(assign);
  one.progress(assign, 1, "there.");
  await one.complete(String(assign.job_id), RESULT);
  expect(dataOf((await asked).text)).toMatchObject([
    { choices: [{ delta: { role: "assistant", content: "Hello there." } }] },
    { choices: [{ delta: {}, finish_reason: "stop" }], compute_router: { job_id: assign.job_id } },
    "[DONE]",
  ]);
});

test("[API9] when another worker finishes with another text, the stream says so and does not end as if it were whole", async () => {
  const [one, two] = [await worker(), await worker()];
  const asked = ask({ ...CHAT, stream: true });
  const assign = await Promise.race([next(one), next(two)]);
  const [first, second] = one.had(String(assign.job_id)) ? [one, two] : [two, one];
  first.ack(assign);
  first.progress(assign, 0, "Good morn");
  await within(
    5_000,
    async () => ((await evm.api.job(String(assign.job_id))).status === "running" ? true : undefined),
    () => "running",
  );
  first.fail(assign, true);
  const again = await next(second);
  second.ack(again);
  second.progress(again, 0, "Hello ");
  await second.complete(String(assign.job_id), RESULT);
  // No text of the second one behind that of the first.
  expect(dataOf((await asked).text)).toMatchObject([
    { choices: [{ delta: { role: "assistant", content: "Good morn" } }] },
    { error: { code: "stream_reset", type: "server_error" } },
    "[DONE]",
  ]);
});

describe("[API9] errors have OpenAI's form", () => {
  test.each<[string, object, RegExp]>([
    ["no messages", { model: "ant" }, /^messages is missing/],
    ["no text", { messages: [] }, /^messages must not be empty/],
    [
      "an image",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }] },
      /^messages\[0\]\.content must be a text, or a list of texts \(images and sound are not supported\)/,
    ],
    ["a tool's message", { messages: [{ role: "tool", content: "1" }] }, /tools are not supported/],
    ["tools", { ...CHAT, tools: [{ type: "function", function: { name: "f" } }] }, /tools are not supported/],
    ["two choices", { ...CHAT, n: 2 }, /^n must be 1/],
    ["logprobs", { ...CHAT, logprobs: true }, /^logprobs must be absent/],
    ["a web search", { ...CHAT, web_search_options: {} }, /^web_search_options must be absent/],
    ["a call of a tool", { ...CHAT, tool_choice: "required" }, /^tool_choice must be none or auto \(tools are not supported\), got "required"$/],
    ["a call of this function", { ...CHAT, function_call: { name: "f" } }, /^function_call must be none or auto/],
    ["a bias", { ...CHAT, logit_bias: { "50256": -100 } }, /^logit_bias must be absent or empty/],
    ["a wrong temperature", { ...CHAT, temperature: 9 }, /^temperature must be a number from 0 to 2, got 9$/],
    ["a schema that is not there", { ...CHAT, response_format: { type: "json_schema" } }, /^response_format\.json_schema is missing: it must be an object$/],
    ["too many tokens", { ...CHAT, max_tokens: 1e6 }, /^max_tokens must be a whole number from 1 to 32768, got 1000000$/],
    ["too many of the newer name", { ...CHAT, max_completion_tokens: 1e6 }, /^max_completion_tokens must be a whole number from 1 to 32768, got 1000000$/],
    ["a wrong model", { ...CHAT, model: "<b>" }, /^model must be 1 to 200/],
    ["a wrong user", { ...CHAT, user: "" }, /^user must have 1 to 128 characters$/],
  ])("%s: 400", async (_title, body, message) => {
    const { status, body: answer } = await ask(body);
    const { param, ...error } = answer.error as Record<"message" | "param" | "type" | "code", string>;
    expect([status, error]).toEqual([400, { message: expect.stringMatching(message), type: "invalid_request_error", code: expect.any(String) }]);
    expect(param).toBe(error.message.split(" ", 1)[0]);
  });

  test("a body that is no JSON, a GET, and an idempotency key of another body", async () => {
    expect(await ask("{")).toMatchObject({ status: 400, body: { error: { type: "invalid_request_error" } } });
    expect(await evm.api.get("/v1/chat/completions")).toMatchObject({ status: 405 });
    const one = await worker();
    const headers = { "idempotency-key": "k" };
    const asked = ask({ ...CHAT, user: "ann" }, undefined, headers);
    const assign = await next(one);
    await one.complete(String(assign.job_id), RESULT);
    const { text } = await asked;
    expect(JSON.parse((await ask({ ...CHAT, user: "ann" }, undefined, headers)).text).compute_router).toEqual(JSON.parse(text).compute_router);
    expect(await ask({ ...CHAT, user: "ann", seed: 1 }, undefined, headers)).toMatchObject({
      status: 409,
      body: { error: { code: "idempotency_key_reused" } },
    });
  });

  test("a job that fails: its status fits its cause, and no client may buy it again by itself", async () => {
    const one = await worker();
    const asked = ask(CHAT);
    const assign = await next(one);
    one.send({ type: "job_failed", job_id: assign.job_id, attempt: 1, error: "content_refused", message: "no", retryable: false });
    const { status, body, headers } = await asked;
    expect([status, headers.get("x-should-retry"), headers.get("x-job-id")]).toEqual([400, "false", assign.job_id]);
    expect(body).toMatchObject({ error: { code: "content_refused", type: "invalid_request_error" } });
  });
});

test.each([
  ["/v1/completions", { model: "ant", prompt: "Say hello.", messages: [null] }, { prompt: "Say hello." }],
  ["/v1/completions", { model: "ant", prompt: "Say hello.", messages: [{ role: "user", content: 5 }] }, { prompt: "Say hello." }],
  ["/v1/chat/completions", { ...CHAT, prompt: "Say something else." }, { prompt: "Say hello.", messages: CHAT.messages }],
])("[API9] the text of the other endpoint is ignored: %s %j", async (path, body, payload) => {
  const one = await worker();
  const asked = ask(body, path);
  const assign = await next(one);
  expect(assign.payload).toEqual({ job_type: "LLM_INFER", model: "ant", ...payload });
  await one.complete(String(assign.job_id), RESULT);
  expect((await asked).status).toBe(200);
});

test("[API5, API9] a client whose connection breaks and that asks again with its key gets the answer: the end of the first connection cancels nothing", async () => {
  const workers = [await worker(), await worker()];
  const begin = async (key: string) => {
    const from = workers.map(({ frames }) => frames.length);
    const raw = new RawHttp(evm.port);
    const body = JSON.stringify(CHAT);
    const head = `Host: ${evm.host}\r\nContent-Type: application/json\r\nIdempotency-Key: ${key}\r\nContent-Length: ${body.length}`;
    raw.write(`POST /v1/chat/completions HTTP/1.1\r\n${head}\r\n\r\n${body}`);
    const [one, assign] = await Promise.any(workers.map(async (each, index) => [each, await next(each, from[index])] as const));
    return { raw, one, id: String(assign.job_id) };
  };
  const first = await begin("asked twice");
  const other = await begin("asked once");
  // Its head comes when the hub has answered its commit.
  const again = await fetch(`${evm.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": "asked twice" },
    body: JSON.stringify({ ...CHAT, stream: true }),
  });
  expect(again.headers.get("x-job-id")).toBe(first.id);
  for (const { raw } of [first, other]) raw.socket.resetAndDestroy();
  expect(await evm.api.until(other.id, "failed")).toMatchObject({ result: { error: "cancelled" } });
  await first.one.complete(first.id, RESULT);
  expect(dataOf(await again.text()).at(-1)).toBe("[DONE]");
  expect((await evm.api.job(first.id)).status).toBe("completed");
});

test.each([false, true])("[API9, JB13] a client that leaves (streaming: %s) cancels its job if nobody has started it, and not after that", async (stream) => {
  const one = await worker();
  const leave = async (acks: boolean) => {
    const from = one.frames.length;
    const raw = new RawHttp(evm.port);
    const body = JSON.stringify({ ...CHAT, stream });
    raw.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: ${evm.host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const assign = await next(one, from);
    if (acks) {
      one.ack(assign);
      await within(
        5_000,
        async () => ((await evm.api.job(String(assign.job_id))).status === "running" ? true : undefined),
        () => "running",
      );
    }
    // A closed connection is noticed at the next write; one that is reset, at once.
    raw.socket.resetAndDestroy();
    return assign;
  };
  const dropped = await leave(false);
  expect(await evm.api.until(String(dropped.job_id), "failed")).toMatchObject({ result: { error: "cancelled" } });
  const kept = await leave(true);
  await one.complete(String(kept.job_id), RESULT);
  expect((await evm.api.job(String(kept.job_id))).status).toBe("completed");
});

test.each(["auto", "AUTO"])("[JB10, API9] %s is any model and none of the list: its 404 says so", async (id) => {
  expect(await evm.api.get(`/v1/models/${id}`)).toMatchObject({
    status: 404,
    body: { error: { code: "model_not_found", message: expect.stringMatching(/^auto means any model/) } },
  });
});

test("[API1, API9] what OpenAI's API has and this one has not is a 404 in OpenAI's form that says what to use instead, whatever the method", async () => {
  const absent = [
    "responses",
    "responses/1",
    "embeddings",
    "images/generations",
    "moderations",
    "files",
    "files/1/content",
    "fine_tuning/jobs",
    "chat/completions/1",
  ];
  for (const path of [...absent, "chat/completions/", "completions/", "models/"].map((name) => `/v1/${name}`)) {
    for (const answer of [await ask({ model: "auto", input: "Hello" }, path), await evm.api.get(path)]) {
      expect({ path, ...answer }).toMatchObject({
        path,
        status: 404,
        body: {
          error: { message: expect.stringMatching(/ \/v1\/(?:chat\/)?(?:completions|models)/), type: "invalid_request_error", param: null, code: "not_found" },
        },
      });
    }
  }
  for (const path of ["/v1/job", "/v1/constructor", "/v1/trust/images", "/v2/files", "/v1/filesystem"])
    expect(await evm.api.get(path), path).toMatchObject({ status: 404, body: { error: "not_found" } });
});
