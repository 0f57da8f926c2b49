import { afterEach, describe, expect, it, vi } from "vitest";
import { type ClientOptions, type FallbackProvider, FallbackError, type JobInput, openaiCompatible } from "../../../src/sdk/index.ts";
import { closedUrl, endless, garbage, hang, paused, loseAnswer, rejection, reply, reset } from "./support/faults.ts";
import { type Fault, RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const LLM = { job_type: "LLM_INFER", prompt: "Hi", max_tokens: 9 } as const;

/** A provider that does everything and remembers it. */
function provider(name = "spare", output: string | Record<string, unknown> = { sentiment: "neutral", confidence: 0 }): FallbackProvider & { ran: JobInput[] } {
  const ran: JobInput[] = [];
  return { name, ran, supports: () => true, run: async (job) => (ran.push(job), output) };
}

/** Runs against a router whose quotes or commits fail, and says whether the fallback answered. */
async function outcome(
  faults: Partial<Record<"quote" | "commit" | "poll", Fault[]>>,
  options: ClientOptions = {},
  run = {},
): Promise<{ answer: unknown; ran: number; router: RouterServer }> {
  const router = await RouterServer.start();
  router.fail("GET /v1/quote", ...(faults.quote ?? []));
  router.fail("POST /v1/jobs/commit", ...(faults.commit ?? []));
  router.fail("GET /v1/jobs", ...(faults.poll ?? []));
  const spare = provider();
  const client = router.client({ fallback: [spare], maxRetries: 1, requestTimeout: 500, ...options });
  const answer = await client.run(CLASSIFY, { idempotencyKey: "mine", timeout: 1_500, ...run }).catch((error: unknown) => error);
  return { answer, ran: spare.ran.length, router };
}

const unreachable = reply(502, "Bad Gateway");
const queueFull = reply(503, { error: "queue_full" }, { "retry-after": "0" });

afterEach(() => void vi.useRealTimers());

describe("fallback", () => {
  it("[SPEC] answers if no router is there: without price and receipt, and marked as a fallback", async () => {
    const spare = provider();
    const router = await RouterServer.start();
    const result = await router.client({ baseUrl: await closedUrl(), fallback: [spare] }).run(CLASSIFY);
    expect(result).toEqual({
      source: "fallback:spare",
      output: { sentiment: "neutral", confidence: 0 },
      result: { sentiment: "neutral", confidence: 0 },
      receipt: null,
      verified: false,
      verification: { ok: false, reason: "fallback" },
      price: null,
      credit: null,
      jobId: null,
      status: "completed",
    });
    expect(spare.ran).toEqual([CLASSIFY]);
  });

  it.each([
    ["the quote gets no answer", { quote: [reset, reset] }],
    ["the quote hangs", { quote: [hang, hang] }],
    ["the quote fails with 502", { quote: [unreachable, unreachable] }],
    ["the quote fails with 500", { quote: [reply(500, { error: "internal" })] }],
    ["the router keeps nothing of the commit: its queue is full", { commit: [queueFull, queueFull] }],
  ])("answers when %s", async (_title, faults) => {
    const { answer, ran, router } = await outcome(faults);
    expect(answer).toMatchObject({ source: "fallback:spare" });
    expect(ran).toBe(1);
    expect(router.jobs.size).toBe(0);
  });

  it("answers when the router dies between quote and commit", async () => {
    const router = await RouterServer.start();
    const dead = await closedUrl();
    const spare = provider();
    const toDead: typeof fetch = (input, init) => fetch(init?.method === "POST" && typeof input === "string" ? input.replace(router.url, dead) : input, init);
    expect(await router.client({ fallback: [spare], fetch: toDead }).run(CLASSIFY)).toMatchObject({ source: "fallback:spare" });
  });

  it.each([
    ["a commit was lost on the way", { commit: [reset, reset] }],
    ["the answer to a commit was lost", { commit: [loseAnswer, loseAnswer] }],
    ["a commit hangs", { commit: [hang, hang] }],
    ["something in front of the router answers 502", { commit: [unreachable, unreachable] }],
    ["something in front of the router answers 503", { commit: [reply(503, "busy"), reply(503, "busy")] }],
    ["a 503 is none of those after which the router keeps nothing", { commit: [reply(503, { error: "upstream" }), reply(503, { error: "upstream" })] }],
    ["the router lost its hub and cannot say: overloaded", { commit: [reply(503, { error: "overloaded" }), reply(503, { error: "overloaded" })] }],
    ["something in front of the router answers 408", { commit: [reply(408, "too slow")] }],
    ["a commit meets a 500", { commit: [reply(500, { error: "internal" })] }],
    ["one try was lost and only the next clearly refused", { commit: [reset, queueFull] }],
    ["a 201 cannot be read", { commit: [garbage(201, "{")] }],
  ])("never answers when a job may exist: %s; the error has the key", async (_title, faults) => {
    const { answer, ran } = await outcome(faults);
    expect(answer).toBeInstanceOf(Error);
    expect(answer).toMatchObject({ idempotencyKey: "mine" });
    expect(ran).toBe(0);
  });

  it("never answers after the job was accepted, even if all polls fail", async () => {
    const { answer, ran } = await outcome({ poll: Array.from({ length: 500 }, () => reply(500, { error: "internal" })) }, {}, { timeout: 1_000 });
    expect(answer).toMatchObject({ code: "job_timeout" });
    expect(ran).toBe(0);
  });

  it("the key in the error finds the job if it was created", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", loseAnswer);
    const client = router.client({ maxRetries: 0, fallback: [provider()] });
    const { idempotencyKey } = await rejection(client.run(CLASSIFY));
    expect(await client.run(CLASSIFY, { idempotencyKey })).toMatchObject({ source: "router", jobId: [...router.jobs.keys()][0] });
    expect(router.jobs.size).toBe(1);
  });

  it.each([400, 401, 404, 409, 413, 422, 429])("never answers for a %i", async (status) => {
    const fault = reply(status, { error: "x" }, { "retry-after": "0" });
    const { answer, ran } = await outcome({ commit: [fault, fault] });
    expect(answer).toMatchObject({ status });
    expect(ran).toBe(0);
  });

  it("never answers for a failed job, a malformed quote or a missed verification", async () => {
    const spare = provider();
    const router = await RouterServer.start({ work: () => ({ error: "no_eligible_worker" }) });
    expect(await rejection(router.client({ fallback: [spare] }).run(CLASSIFY))).toMatchObject({ code: "no_eligible_worker" });
    router.fail("GET /v1/quote", garbage(200, "<html>"));
    expect(await rejection(router.client({ fallback: [spare] }).run(CLASSIFY))).toMatchObject({ code: "protocol" });
    router.fail("GET /v1/quote", reset, reset, reset);
    expect(await rejection(router.client({ fallback: [spare], requireVerified: true }).run(CLASSIFY))).toMatchObject({ code: "connection_failed" });
    expect(spare.ran).toEqual([]);
  });

  it("[SPEC] a PRIVATE job never leaves for a third party", async () => {
    const { answer, ran } = await outcome({ quote: [reset, reset] }, {}, { privacy: "PRIVATE" });
    expect(answer).toMatchObject({ code: "connection_failed" });
    expect(ran).toBe(0);
  });

  it("never answers after a payment was sent, not even for a clear 503", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail(
      "POST /v1/jobs/commit",
      (response, _request, proceed) => proceed(response),
      ...Array.from({ length: 3 }, () => reply(503, { error: "facilitator_unavailable" })),
    );
    const spare = provider();
    const client = router.client({ fallback: [spare], payment: async () => ({ "x-payment": "paid" }) });
    expect(await rejection(client.run(CLASSIFY, { idempotencyKey: "mine" }))).toMatchObject({ code: "unavailable", idempotencyKey: "mine" });
    expect(spare.ran).toEqual([]);
  });

  it("never answers while the payment hook runs", async () => {
    const router = await RouterServer.start({ gated: true });
    const spare = provider();
    // The time stands still until the hook runs: on a slow machine it could be over before.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const hook = Promise.withResolvers<void>();
    const payment = (): Promise<never> => {
      hook.resolve();
      return new Promise(() => {});
    };
    const failed = rejection(router.client({ fallback: [spare], payment }).run(CLASSIFY, { timeout: 100 }));
    await hook.promise;
    vi.advanceTimersByTime(100);
    expect(await failed).toMatchObject({ code: "connection_failed" });
    expect(spare.ran).toEqual([]);
  });

  it("asks the providers in order, and only those that support the job", async () => {
    const failing: FallbackProvider = {
      name: "a",
      supports: () => true,
      run: async () => {
        throw new Error("down");
      },
    };
    const picky: FallbackProvider = { name: "b", supports: ({ job_type }) => job_type === "LLM_INFER", run: async () => "no" };
    const odd: FallbackProvider = { name: "c", supports: () => true, run: async () => 5 as never };
    const last = provider("d", "text");
    const router = await RouterServer.start();
    const down = { baseUrl: await closedUrl(), maxRetries: 0 };
    expect(await router.client({ ...down, fallback: [failing, picky, odd, last, provider("e")] }).run(CLASSIFY)).toMatchObject({
      source: "fallback:d",
      output: "text",
      result: { output: "text" },
    });
    const error = await rejection(router.client({ ...down, fallback: [failing, picky, odd] }).run(CLASSIFY));
    expect(error).toBeInstanceOf(FallbackError);
    expect(error.message).toBe(
      `cannot connect to ${down.baseUrl} (ECONNREFUSED); the fallback failed too: a: down; c returned an output that is neither text nor an object`,
    );
    expect(error.cause).toMatchObject({ code: "connection_failed", reason: "connect" });
    expect(error.fallbackErrors.map(String)).toEqual(["Error: down", "FallbackError: c returned an output that is neither text nor an object"]);
  });

  it("a failed provider is named with its answer, or with the reason why it was not reached", async () => {
    const server = await RouterServer.start();
    const dead = await closedUrl();
    server.fail("POST /v1/chat/completions", reply(404, { error: { message: "no model\u001b[31m m for sk-1" } }));
    const fallback = [
      openaiCompatible({ baseUrl: `${server.url}/v1`, apiKey: "sk-1", model: "m", name: "hosted" }),
      openaiCompatible({ baseUrl: `${dead}/v1`, model: "m" }),
    ];
    const error = await rejection(server.client({ baseUrl: dead, maxRetries: 0, fallback }).llm("Hi"));
    const host = new URL(dead).host;
    expect(error).toMatchObject({ name: "FallbackError", code: "fallback_failed", cause: { name: "RouterConnectionError" } });
    expect(error.message).toBe(
      `cannot connect to ${dead} (ECONNREFUSED); the fallback failed too: hosted answered 404: no model [31m m for (the key); ${host}: cannot connect to ${host} (ECONNREFUSED)`,
    );
  });

  it("if no provider supports the job, the error of the router is thrown", async () => {
    const router = await RouterServer.start();
    const fallback = [openaiCompatible({ baseUrl: "http://127.0.0.1:9/v1", model: "m" })];
    const error = await rejection(router.client({ baseUrl: await closedUrl(), maxRetries: 0, fallback }).run(CLASSIFY));
    expect(error).toMatchObject({ code: "connection_failed", fallbackErrors: [] });
  });

  it("a provider gets a whole timeout for itself, and its signal is aborted at the end", async () => {
    let heard: AbortSignal | undefined;
    const slow: FallbackProvider = { name: "slow", supports: () => true, run: (_job, signal) => ((heard = signal), new Promise(() => {})) };
    const router = await RouterServer.start();
    const client = router.client({ baseUrl: await closedUrl(), maxRetries: 0, fallback: [slow, provider()] });
    expect(await client.run(CLASSIFY, { timeout: 80 })).toMatchObject({ source: "fallback:spare" });
    expect(heard?.reason).toBeInstanceOf(FallbackError);
  });

  it("an abort during a fallback is the caller's abort", async () => {
    const controller = new AbortController();
    const slow: FallbackProvider = { name: "slow", supports: () => true, run: () => (controller.abort("enough"), new Promise(() => {})) };
    const next = provider();
    const router = await RouterServer.start();
    const client = router.client({ baseUrl: await closedUrl(), maxRetries: 0, fallback: [slow, next] });
    expect(await rejection(client.run(CLASSIFY, { signal: controller.signal }))).toBe("enough");
    expect(next.ran).toEqual([]);
  });

  it("submit and waitFor never fall back", async () => {
    const spare = provider();
    const router = await RouterServer.start();
    const client = router.client({ baseUrl: await closedUrl(), fallback: [spare], maxRetries: 0 });
    expect(await rejection(client.submit(CLASSIFY))).toMatchObject({ code: "connection_failed" });
    expect(await rejection(client.waitFor("00000000-0000-4000-8000-000000000000", { timeout: 60 }))).toMatchObject({ code: "job_timeout" });
    expect(spare.ran).toEqual([]);
  });
});

describe("openaiCompatible", () => {
  const completion = { choices: [{ message: { role: "assistant", content: "Hello!" } }] };

  it("asks for one unstreamed completion and gives its text", async () => {
    const server = await RouterServer.start();
    server.fail("POST /v1/chat/completions", reply(200, completion));
    const fallback = [openaiCompatible({ baseUrl: `${server.url}/v1/`, apiKey: "sk-1", model: "m", name: "spare" })];
    const client = server.client({ baseUrl: await closedUrl(), maxRetries: 0, fallback });
    expect(await client.llm("Hi", { maxTokens: 9 })).toMatchObject({
      source: "fallback:spare",
      output: "Hello!",
      result: { output: "Hello!" },
      verified: false,
    });
    const [request] = server.received;
    expect(request?.headers.authorization).toBe("Bearer sk-1");
    expect(JSON.parse(request?.body ?? "")).toEqual({ model: "m", messages: [{ role: "user", content: "Hi" }], max_tokens: 9, stream: false });
  });

  it("[JB10] supports LLM_INFER only, with its own model or any, and has the name of its host", () => {
    const spare = openaiCompatible({ baseUrl: "https://api.example.com/v1", model: "m" });
    expect(spare.name).toBe("api.example.com");
    expect([spare.supports(LLM), spare.supports(CLASSIFY)]).toEqual([true, false]);
    expect(["auto", "M", "another"].map((model) => spare.supports({ ...LLM, model }))).toEqual([true, true, false]);
  });

  it.each([
    ["a 401", reply(401, { error: { message: "bad key sk-1" } }), 401],
    ["a redirect", reply(307, {}, { location: "http://127.0.0.1:9/" }), 307],
    ["no JSON", garbage(200, "<html>"), 200],
    ["no text", reply(200, { choices: [{ message: { content: " " } }] }), 200],
    ["no choices", reply(200, { choices: [] }), 200],
    ["a body without end", endless, 200],
  ])("%s is a FallbackError", async (_title, fault, status) => {
    const server = await RouterServer.start();
    server.fail("POST /v1/chat/completions", fault);
    const error = await rejection(openaiCompatible({ baseUrl: `${server.url}/v1`, apiKey: "sk-1", model: "m" }).run(LLM, new AbortController().signal));
    expect(error).toBeInstanceOf(FallbackError);
    expect(error).toMatchObject({ code: "fallback_failed", status });
    expect(error.message).not.toContain("sk-1");
  });

  it("stops when its signal is aborted", async () => {
    const server = await RouterServer.start();
    const { fault, arrived } = paused();
    server.fail("POST /v1/chat/completions", fault);
    const controller = new AbortController();
    const answer = rejection(openaiCompatible({ baseUrl: `${server.url}/v1`, model: "m" }).run(LLM, controller.signal));
    await arrived;
    controller.abort("enough");
    expect(await answer).toBe("enough");
  });

  it.each([
    ["baseUrl", { baseUrl: "api.example.com", model: "m" }],
    ["model", { baseUrl: "https://a.example", model: "" }],
    ["apiKey", { baseUrl: "https://a.example", model: "m", apiKey: "a b" }],
    ["name", { baseUrl: "https://a.example", model: "m", name: 1 as never }],
    ["fetch", { baseUrl: "https://a.example", model: "m", fetch: 1 as never }],
    ["modle", { baseUrl: "https://a.example", model: "m", modle: "x" }],
  ])("checks %s", (option, options) => {
    expect(() => openaiCompatible(options)).toThrow(expect.objectContaining({ code: "invalid_option", option }));
  });
});
