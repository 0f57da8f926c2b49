import { afterEach, describe, expect, it } from "vitest";
import { ComputeRouter, InvalidOptionError, type JobInput, openaiCompatible } from "../../../src/sdk/index.ts";
import { readOptions } from "../../../src/sdk/options.ts";
import { rejection } from "./support/faults.ts";
import { RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const invalid = (option: string): unknown =>
  expect.objectContaining({ name: "InvalidOptionError", code: "invalid_option", option, message: expect.stringContaining(option) });

describe("client options", () => {
  const before = process.env.ROUTER_BASE_URL;
  afterEach(() => {
    if (before === undefined) delete process.env.ROUTER_BASE_URL;
    else process.env.ROUTER_BASE_URL = before;
  });

  it("[SPEC] the default is the local EVM coordinator, 500 ms, 30 s and 60 s", () => {
    delete process.env.ROUTER_BASE_URL;
    expect(new ComputeRouter().baseUrl).toBe("http://127.0.0.1:4010");
    expect(new ComputeRouter({ instance: "evm" }).baseUrl).toBe("http://127.0.0.1:4010");
    expect(new ComputeRouter({ instance: "svm" }).baseUrl).toBe("http://127.0.0.1:4020");
    expect(readOptions()).toMatchObject({
      pollInterval: 500,
      timeout: { TASK: 30_000, LLM_INFER: 60_000 },
      retry: { retries: 2, delay: 500 },
      requireVerified: false,
    });
  });

  it("ROUTER_BASE_URL counts before the default, the option counts before both, and the /v1 of OpenAI's clients is no part of it", () => {
    process.env.ROUTER_BASE_URL = "https://router.example/svm/";
    expect(new ComputeRouter({ instance: "svm" }).baseUrl).toBe("https://router.example/svm");
    expect(new ComputeRouter({ baseUrl: "http://[::1]:4010" }).baseUrl).toBe("http://[::1]:4010");
    process.env.ROUTER_BASE_URL = "http://router.example/v1/";
    expect(new ComputeRouter().baseUrl).toBe("http://router.example");
    expect(new ComputeRouter({ baseUrl: "https://router.example/svm/v1" }).baseUrl).toBe("https://router.example/svm");
    process.env.ROUTER_BASE_URL = "router.example";
    expect(() => new ComputeRouter()).toThrow(invalid("ROUTER_BASE_URL"));
  });

  it("[TR1] a user id is 128 random bits, one for each client, which can be read and is sent", async () => {
    const router = await RouterServer.start();
    const [one, other] = [router.client(), router.client()];
    expect(one.userId).toMatch(/^[0-9a-f]{32}$/);
    expect(one.userId).not.toBe(other.userId);
    await one.submit(CLASSIFY);
    await one.submit(CLASSIFY);
    expect(router.to("/v1/jobs/commit").map(({ body }) => JSON.parse(body).user_id)).toEqual([one.userId, one.userId]);
    expect(new ComputeRouter({ userId: "😀".repeat(128) }).userId).toBe("😀".repeat(128));
  });

  it.each<[string, unknown]>([
    ["baseUrl", ""],
    ["baseUrl", "localhost:4010"],
    ["baseUrl", "ftp://a.example"],
    ["baseUrl", "http://u:p@a.example"],
    ["baseUrl", "http://a.example/?x=1"],
    ["baseUrl", "http://a.example/?"],
    ["baseUrl", "http://a.example/#"],
    ["baseUrl", 5],
    ["instance", "btc"],
    ["userId", ""],
    ["userId", "a".repeat(129)],
    ["userId", "a\nb"],
    ["userId", "\ud800"],
    ["userId", 5],
    ["userToken", "a b"],
    ["userToken", ""],
    ["fetch", {}],
    ["pollInterval", 0],
    ["pollInterval", "500"],
    ["timeout", -1],
    ["timeout", Number.NaN],
    ["timeout", 2 ** 31],
    ["requestTimeout", 0.5],
    ["maxRetries", -1],
    ["maxRetries", 21],
    ["retryDelay", -1],
    ["fallback", {}],
    ["fallback[0]", [{}]],
    ["payment", "0x"],
    ["maxPrice", "cheap"],
    ["maxPrice", -1],
    ["maxPrice", Number.NaN],
    ["requireVerified", "yes"],
    ["cancelOnAbort", "no"],
    ["jobList", { add: () => {} }],
    ["baseURL", "http://a.example"],
  ])("names %s when it is %j", (option, value) => {
    const name = option.replace("[0]", "");
    expect(() => new ComputeRouter({ [name]: value })).toThrow(invalid(option));
  });

  it.each([
    ["ws://a.example/", "http://a.example"],
    ["WSS://a.example/v1", "https://a.example"],
  ])("takes the address that workers use: %s", (given, baseUrl) => {
    expect(readOptions({ baseUrl: given })).toMatchObject({ baseUrl });
  });

  it.each<[object, string]>([
    [{ timeout: "5" }, 'timeout must be a whole number from 1 to 2147483647, got "5"'],
    [{ instance: "btc" }, 'instance must be one of evm, svm, got "btc"'],
    [{ baseUrl: "localhost:4010" }, 'baseUrl must be an absolute http or https URL, got "localhost:4010"'],
    [{ baseUrl: "user:secret@host" }, "baseUrl must be an absolute http or https URL"],
    [{ maxPrice: "cheap" }, 'maxPrice must be US dollars, such as 0.01 or "$0.01", got "cheap"'],
    [{ fallback: {} }, "fallback must be an array of providers, got an object"],
    [{ payment: 5 }, "payment must be a function, got 5"],
    [{ userId: 5 }, "userId must be a string, got 5"],
    [{ userToken: "my secret" }, "userToken must have 1 to 1024 characters, all of them visible ASCII"],
    [{ requireVerified: "\u001b[31m" }, "requireVerified must be true or false, got a string of 5 characters"],
    [{ requireVerified: "y".repeat(10_000) }, "requireVerified must be true or false, got a string of 10000 characters"],
  ])("says in a sentence what %j must be, without secrets and long values", (options, message) => {
    expect(() => new ComputeRouter(options)).toThrow(expect.objectContaining({ message }));
  });

  it.each([
    "instance",
    "userId",
    "userToken",
    "fetch",
    "pollInterval",
    "timeout",
    "requestTimeout",
    "maxRetries",
    "retryDelay",
    "fallback",
    "payment",
    "maxPrice",
    "cancelOnAbort",
    "jobList",
  ])("%s null counts as left out", (name) => {
    const { userId: made, ...usual } = readOptions({ baseUrl: "http://a.example" });
    const { userId, ...settings } = readOptions({ baseUrl: "http://a.example", [name]: null });
    expect(settings).toEqual(usual);
    expect(userId).toHaveLength(made.length);
  });

  it("baseUrl and requireVerified null, and options null, count as left out", () => {
    delete process.env.ROUTER_BASE_URL;
    expect(readOptions({ baseUrl: null, requireVerified: null } as never)).toMatchObject({ baseUrl: "http://127.0.0.1:4010", requireVerified: false });
    expect(readOptions(null as never).baseUrl).toBe("http://127.0.0.1:4010");
  });

  it("options that are not an object are refused", () => {
    expect(() => new ComputeRouter("http://a.example" as never)).toThrow(InvalidOptionError);
  });
});

describe("call options and jobs", () => {
  it("null counts as left out in the options of every call", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const run = {
      signal: null,
      cancelOnAbort: null,
      policy: null,
      privacy: null,
      timeout: null,
      idempotencyKey: null,
      onUpdate: null,
      requireVerified: null,
    } as never;
    expect((await client.run(CLASSIFY, run)).verified).toBe(true);
    const llm = { maxTokens: null, model: null, ...Object(run) } as never;
    expect((await client.llm("hi", llm)).verified).toBe(true);
    expect(JSON.parse(router.to("/v1/jobs/commit").at(-1)?.body ?? "").payload).not.toHaveProperty("max_tokens");
    const map = { concurrency: null, onResult: null, signal: null, policy: null, privacy: null, timeout: null, requireVerified: null } as never;
    expect(await client.map([CLASSIFY], map)).toEqual([expect.objectContaining({ status: "fulfilled" })]);
    const commit = { signal: null, policy: null, privacy: null, timeout: null, idempotencyKey: null } as never;
    const { jobId } = await client.submit(CLASSIFY, commit);
    for await (const event of client.stream(CLASSIFY, { requireVerified: null, ...Object(commit) } as never)) expect(event).toHaveProperty("type");
    expect((await client.waitFor(jobId, { signal: null, timeout: null, onUpdate: null, requireVerified: null } as never)).verified).toBe(true);
    expect(await client.get(jobId, { signal: null, wait: null } as never)).toMatchObject({ id: jobId });
    expect(await client.quote("TASK", null as never, { signal: null } as never)).toMatchObject({ policy_resolved: "CHEAP" });
    expect(await client.models({ signal: null } as never)).toMatchObject({ object: "list" });
    expect(await client.cancel(jobId, { signal: null, cancelToken: null } as never)).toMatchObject({ cancelled: false });
    expect(await client.health(null as never)).toMatchObject({ status: "ok" });
    const offer = await client.trust.create({ signal: null } as never);
    await client.trust.claim({ pairing_code: offer.code, provider_pubkey: "00".repeat(32), signature: null } as never, { signal: null } as never);
    expect(router.to("/v1/trust/claim").at(-1)?.body).not.toContain("signature");
    expect((await client.trust.list({ signal: null } as never)).providers).toHaveLength(1);
    expect((await client.trust.waitForWorker(offer, { signal: null, interval: null, onPoll: null } as never)).publicKey).toBe("00".repeat(32));
    const provider = openaiCompatible({ baseUrl: "http://a.example/v1", model: "m", apiKey: null, name: null, fetch: null } as never);
    expect(provider.name).toBe("a.example");
  });

  it.each<[string, object]>([
    ["policy", { policy: "fast" }],
    ["privacy", { privacy: "SECRET" }],
    ["timeout", { timeout: 0 }],
    ["idempotencyKey", { idempotencyKey: "" }],
    ["idempotencyKey", { idempotencyKey: "a".repeat(256) }],
    ["idempotencyKey", { idempotencyKey: "ü" }],
    ["onUpdate", { onUpdate: 1 }],
    ["requireVerified", { requireVerified: 1 }],
    ["signal", { signal: {} }],
    ["polciy", { polciy: "FAST" }],
  ])("run names %s in %j and sends nothing", async (option, options) => {
    const router = await RouterServer.start();
    expect(await rejection(router.client().run(CLASSIFY, options))).toEqual(invalid(option));
    expect(router.received).toEqual([]);
  });

  it.each<[string, unknown]>([
    ["job", null],
    ["job.job_type", {}],
    ["job.job_type", { job_type: "VIDEO" }],
    ["job.prompt", { job_type: "LLM_INFER" }],
    ["job.prompt", { job_type: "LLM_INFER", prompt: "" }],
    ["job.prompt", { job_type: "LLM_INFER", prompt: "ü".repeat(131_073) }],
    ["job.max_tokens", { job_type: "LLM_INFER", prompt: "x", max_tokens: 0 }],
    ["job.max_tokens", { job_type: "LLM_INFER", prompt: "x", max_tokens: 32_769 }],
    ["job.max_tokens", { job_type: "LLM_INFER", prompt: "x", max_tokens: "5" }],
    ["job.task_type", { job_type: "TASK", input: "x" }],
    ["job.input", { job_type: "TASK", task_type: "classify" }],
    ["job", { job_type: "TASK", task_type: "classify", input: "\ud800" }],
    ["job", { ...CLASSIFY, big: 1n }],
  ])("[API2] names %s before anything is sent", async (field, job) => {
    const router = await RouterServer.start();
    expect(await rejection(router.client().run(job as JobInput))).toEqual(invalid(field));
    expect(router.received).toEqual([]);
  });

  it("[API2] a job that holds itself is no JSON: no call sends it, and none ends with a RangeError", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const job: JobInput & { more?: unknown } = { ...CLASSIFY };
    job.more = [{ job }];
    for (const call of [client.run(job), client.submit(job)]) expect(await rejection(call)).toMatchObject({ option: "job", message: "job must be JSON" });
    expect(() => client.stream(job)).toThrow(invalid("job"));
    expect(await rejection(client.map([CLASSIFY, job]))).toEqual(invalid("jobs[1]"));
    expect(router.received).toEqual([]);
  });

  it("[API2] max_tokens null counts as absent, for the router too", async () => {
    const router = await RouterServer.start();
    expect(await router.client().submit({ job_type: "LLM_INFER", prompt: "x", max_tokens: null as never })).toHaveProperty("jobId");
  });

  it("a helper names the wrong argument or option", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    expect(await rejection(client.llm(undefined as never))).toMatchObject({ message: "prompt must be a string, got undefined" });
    expect(await rejection(client.classify(""))).toMatchObject({ message: "text must not be empty" });
    expect(await rejection(client.llm("x", { maxTokens: 0 }))).toMatchObject({ message: "maxTokens must be a whole number from 1 to 32768, got 0" });
    expect(await rejection(client.llm("x", { maxToken: 5 } as never))).toMatchObject({ message: expect.stringContaining("options of llm (maxTokens, ") });
    expect(router.received).toEqual([]);
  });

  it("[API2] accepts a text of exactly the limit", async () => {
    const router = await RouterServer.start();
    expect(await router.client().submit({ job_type: "LLM_INFER", prompt: "ü".repeat(131_072), max_tokens: 32_768 })).toHaveProperty("jobId");
  });

  it("get, waitFor and quote check what they are given", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const id = "00000000-0000-4000-8000-000000000000";
    for (const jobId of ["", "..", "a/b", `${id}?wait=1`]) expect(await rejection(client.get(jobId))).toEqual(invalid("jobId"));
    expect(await rejection(client.waitFor("x"))).toEqual(invalid("jobId"));
    for (const wait of [-1, 1.5, 26]) expect(await rejection(client.get(id, { wait }))).toEqual(invalid("wait"));
    expect(await rejection(client.quote("VIDEO" as never))).toEqual(invalid("jobType"));
    expect(await rejection(client.quote("TASK", "fast" as never))).toEqual(invalid("policy"));
    expect(await rejection(client.waitFor(id, { policy: "FAST" } as never))).toEqual(invalid("policy"));
    expect(router.received).toEqual([]);
  });
});
