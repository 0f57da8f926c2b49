import { describe, expect, it } from "vitest";
import {
  type Job,
  JobFailedError,
  JobTimeoutError,
  NoEligibleWorkerError,
  NotFoundError,
  NoTrustedWorkerError,
  ProtocolError,
  UnexpectedOutputError,
} from "../../../src/sdk/index.ts";
import { hang, rejection, reply } from "./support/faults.ts";
import { RouterServer, tokenOf } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

describe("run", () => {
  it("[SPEC] quotes, commits to the quoted endpoint, polls and returns the result", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const result = await client.run(CLASSIFY);
    expect(result).toMatchObject({
      source: "router",
      output: { sentiment: "positive", confidence: 0.75 },
      result: { sentiment: "positive", confidence: 0.75 },
      verified: true,
      verification: { ok: true },
      price: "$0.001",
      jobId: [...router.jobs.keys()][0],
      status: "completed",
    });
    expect(result.receipt?.job_id).toBe(result.jobId);
    expect(router.received.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "GET /v1/quote",
      "POST /v1/jobs/commit/cheap",
      ...Array.from({ length: 3 }, () => `GET /v1/jobs/${result.jobId}`),
    ]);
    expect(JSON.parse(router.received[1]?.body ?? "")).toEqual({ job_type: "TASK", user_id: client.userId, payload: CLASSIFY, privacy_class: "PUBLIC" });
  });

  it.each([
    ["LLM_INFER", undefined, "fast", "$0.010"],
    ["LLM_INFER", "CHEAP", "cheap", "$0.005"],
    ["TASK", "AUTO", "cheap", "$0.001"],
    ["TASK", "FAST", "fast", "$0.003"],
  ] as const)("[SPEC] %s under %s goes to /%s for %s", async (type, policy, tier, price) => {
    const router = await RouterServer.start();
    const job = type === "TASK" ? CLASSIFY : ({ job_type: "LLM_INFER", prompt: "Hi", max_tokens: 5 } as const);
    const result = await router.client().run(job, policy && { policy });
    expect(result.price).toBe(price);
    expect(router.to("/v1/jobs/commit")).toHaveLength(1);
    expect(router.to(`/v1/jobs/commit/${tier}`)).toHaveLength(1);
  });

  it("[WS8] sends members it does not know on to the worker", async () => {
    const router = await RouterServer.start();
    const job = { ...CLASSIFY, language: "de" };
    await router.client().run(job);
    expect(JSON.parse(router.to("/v1/jobs/commit")[0]?.body ?? "").payload).toEqual(job);
  });

  it("[SPEC] waits the poll interval between polls", async () => {
    const router = await RouterServer.start({ statuses: ["pending", "pending", "running"] });
    const { jobId } = await router.client({ pollInterval: 40 }).run(CLASSIFY);
    const times = router.to(`/v1/jobs/${jobId}`).map(({ at }) => at);
    expect(times).toHaveLength(4);
    for (const [i, time] of times.slice(1).entries()) expect(time - (times[i] ?? 0)).toBeGreaterThan(38);
  });

  it("reports each new status once, with the job", async () => {
    const router = await RouterServer.start({ statuses: ["pending", "pending", "assigned", "running", "running"] });
    const seen: Job[] = [];
    const { jobId } = await router.client().run(CLASSIFY, { onUpdate: (job) => seen.push(job) });
    expect(seen.map(({ status }) => status)).toEqual(["pending", "assigned", "running", "completed"]);
    expect(new Set(seen.map(({ id }) => id))).toEqual(new Set([jobId]));
  });

  it("rejects with the error that onUpdate throws", async () => {
    const router = await RouterServer.start();
    const bug = new Error("mine");
    expect(
      await rejection(
        router.client().run(CLASSIFY, {
          onUpdate: () => {
            throw bug;
          },
        }),
      ),
    ).toBe(bug);
  });
});

describe("outputs", () => {
  it("[JB7] returns the text of an LLM job from every known form of output", async () => {
    const router = await RouterServer.start();
    const ours = await router.client().llm("Hi", { maxTokens: 7 });
    expect(ours.output).toBe("Echo: Hi");
    expect(ours.result).toMatchObject({ model: "tiny" });
    expect(JSON.parse(router.to("/v1/jobs/commit")[0]?.body ?? "").payload).toEqual({ job_type: "LLM_INFER", prompt: "Hi", max_tokens: 7 });

    router.rules.work = () => ({ output: "bare text" });
    const bare = await router.client().llm("Hi");
    expect(bare).toMatchObject({ output: "bare text", result: { output: "bare text" }, verified: true });
  });

  it("[SPEC] returns the object of each task", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    expect((await client.classify("x")).output.sentiment).toBe("positive");
    expect((await client.summarize("x")).output.word_count).toBe(3);
    const extraction = await client.extractJson("x");
    expect(extraction.output.extracted).toHaveLength(extraction.output.count);
    expect(extraction.verified).toBe(true);
    expect(router.to("/v1/jobs/commit").map(({ body }) => JSON.parse(body).payload.task_type)).toEqual(["classify", "summarize", "extract_json"]);
  });

  it("a helper refuses an output of another shape with an error that has the output; run accepts it", async () => {
    const router = await RouterServer.start({ work: () => ({ output: { mood: "good" } }) });
    const client = router.client();
    for (const error of await Promise.all([client.classify("x"), client.summarize("x"), client.extractJson("x"), client.llm("x")].map(rejection))) {
      expect(error).toBeInstanceOf(ProtocolError);
      expect(error).toBeInstanceOf(UnexpectedOutputError);
      expect(error).toMatchObject({ code: "unexpected_output", reason: "unexpected_output", result: { mood: "good" }, receipt: { job_id: error.jobId } });
      expect(router.jobs.has(error.jobId)).toBe(true);
    }
    expect((await client.run(CLASSIFY)).output).toEqual({ mood: "good" });
  });

  it("[RC6] reads `text` if an LLM output has no `output`; result and receipt are unchanged", async () => {
    const router = await RouterServer.start({ work: () => ({ output: { text: "Hello", model: "m" } }) });
    const client = router.client();
    expect(await client.llm("Hi")).toMatchObject({ output: "Hello", result: { text: "Hello", model: "m" }, verified: true });
    router.rules.work = () => ({ output: { text: "not this", output: "this" } });
    expect((await client.llm("Hi")).output).toBe("this");
    router.rules.work = () => ({ output: { text: "Hello", output: null } });
    expect((await client.llm("Hi")).output).toBe("Hello");
    router.rules.work = () => ({ output: { text: "more", sentiment: "positive", confidence: 1 } });
    expect((await client.classify("x")).output).toEqual({ text: "more", sentiment: "positive", confidence: 1 });
  });
});

describe("failure", () => {
  it.each([
    "worker_lost",
    "execution_timeout",
    "worker_error",
    "invalid_receipt",
    "output_too_large",
    "deadline_exceeded",
    "cancelled",
    "payment_failed",
    "content_refused",
    "context_length_exceeded",
  ])("[JB5] %s is a JobFailedError with that cause", async (cause) => {
    const router = await RouterServer.start({ work: () => ({ error: cause }) });
    const error = await rejection(router.client().run(CLASSIFY));
    expect(error).toBeInstanceOf(JobFailedError);
    expect(error).toMatchObject({ name: "JobFailedError", code: "job_failed", cause, reason: cause, jobId: [...router.jobs.keys()][0] });
  });

  it("a cause that no router of ours sends is one short line of the message", async () => {
    const router = await RouterServer.start({ work: () => ({ error: `\n${"x ".repeat(200)}\u202E` }) });
    const { message } = await rejection(router.client().run(CLASSIFY));
    expect(message).toMatch(/^[ -~…]{1,200}$/);
  });

  it("[JB5] the worker's message is a member of the error, and not part of its own message", async () => {
    const router = await RouterServer.start({ work: () => ({ error: "worker_error", message: "the model is out of memory" }) });
    const error = await rejection(router.client().run(CLASSIFY));
    expect(error).toMatchObject({ reason: "worker_error", workerMessage: "the model is out of memory" });
    expect(error.message).not.toContain("memory");
    const silent = await RouterServer.start({ work: () => ({ error: "worker_error" }) });
    expect(await rejection(silent.client().run(CLASSIFY))).toMatchObject({ workerMessage: null });
  });

  it("[SPEC] no_eligible_worker is a NoEligibleWorkerError", async () => {
    const router = await RouterServer.start({ work: () => ({ error: "no_eligible_worker" }) });
    const error = await rejection(router.client().run(CLASSIFY));
    expect(error).toBeInstanceOf(NoEligibleWorkerError);
    expect(error).toBeInstanceOf(JobFailedError);
    expect(error.code).toBe("no_eligible_worker");
  });

  it("[SPEC] a 422 is a NoTrustedWorkerError that says no_trusted_worker, and the job can be polled", async () => {
    const router = await RouterServer.start({ trusted: false });
    const client = router.client();
    const error = await rejection(client.run(CLASSIFY, { privacy: "PRIVATE" }));
    expect(error).toBeInstanceOf(NoTrustedWorkerError);
    expect(error.message).toContain("no_trusted_worker");
    expect(error).toMatchObject({ code: "no_trusted_worker", status: 422, requestId: "req-1", jobId: [...router.jobs.keys()][0] });
    expect(await client.get(error.jobId)).toMatchObject({ status: "failed", result: { error: "no_trusted_worker" } });
    const again = await rejection(client.waitFor(error.jobId));
    expect(again).toBeInstanceOf(NoTrustedWorkerError);
    expect(again.message).toContain("no_trusted_worker");
  });

  it("a failed job with an unreadable cause is a JobFailedError too", async () => {
    const router = await RouterServer.start({ work: () => ({ output: {} }) });
    const client = router.client();
    const { jobId } = await client.submit(CLASSIFY);
    router.fail("GET /v1/jobs", reply(200, { id: jobId, status: "failed", result: null, receipt: null, created_at: "x", completed_at: null }));
    expect((await rejection(client.waitFor(jobId))).cause).toBe("unknown");
  });
});

describe("timeout", () => {
  const never = { statuses: Array.from({ length: 10_000 }, () => "running" as const) };

  it("[SPEC] throws with the job's id, and waitFor can continue to wait for it", async () => {
    const router = await RouterServer.start(never);
    const client = router.client();
    const start = performance.now();
    const error = await rejection(client.run(CLASSIFY, { timeout: 600 }));
    expect(performance.now() - start).toBeGreaterThan(595);
    expect(error).toBeInstanceOf(JobTimeoutError);
    expect(error).toMatchObject({ code: "job_timeout", jobId: [...router.jobs.keys()][0], lastStatus: "running" });

    router.jobs.get(error.jobId)?.seen.splice(0);
    expect(await client.waitFor(error.jobId)).toMatchObject({ output: { sentiment: "positive" }, verified: true, price: null, jobId: error.jobId });
  });

  it("ends a poll that hangs, and sends no other", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/jobs", hang);
    const error = await rejection(router.client().run(CLASSIFY, { timeout: 1_000 }));
    expect(error).toBeInstanceOf(JobTimeoutError);
    expect(error.lastStatus).toBeNull();
    expect(router.to("/v1/jobs/")).toHaveLength(2);
  });

  it("[JB9] an outage during polling does not end the wait: the accepted job is found again", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/jobs", ...[500, 503, 502, 500, 429, 504, 500].map((status) => reply(status, { error: "overloaded" })));
    expect(await router.client({ maxRetries: 1 }).run(CLASSIFY)).toMatchObject({ verified: true });
  });

  it("names the cause if an outage lasts longer than the timeout", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/jobs", ...Array.from({ length: 2_000 }, () => reply(503, { error: "overloaded" })));
    const error = await rejection(router.client().run(CLASSIFY, { timeout: 1_000 }));
    expect(error).toBeInstanceOf(JobTimeoutError);
    expect(error.cause).toMatchObject({ code: "unavailable", reason: "overloaded" });
  });
});

describe("submit, get, quote, health", () => {
  it("submit returns the id at once; get returns the job in its present state, or waits", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const { jobId, ...rest } = await client.submit(CLASSIFY, { policy: "FAST" });
    expect(rest).toEqual({ cancelToken: tokenOf(jobId) });
    expect(await client.get(jobId)).toMatchObject({ id: jobId, status: "pending", result: null });
    expect(await client.get(jobId, { wait: 25 })).toMatchObject({ status: "completed" });
    expect(router.to("/v1/jobs/commit")[0]?.path).toMatch(/fast$/);
    expect(router.to(`/v1/jobs/${jobId}`).map(({ query }) => query.get("wait"))).toEqual([null, "25"]);
  });

  it("[API6] the request timeout of a get that waits is longer by the time that it waits", async () => {
    const router = await RouterServer.start();
    const client = router.client({ requestTimeout: 500, maxRetries: 0 });
    const { jobId } = await client.submit(CLASSIFY);
    router.fail("GET /v1/jobs", (response, _request, proceed) => setTimeout(() => proceed(response), 700));
    expect(await client.get(jobId, { wait: 1 })).toMatchObject({ status: "completed" });
  });

  it("[API5] the same key with the same job is the same job, with another job it is a conflict", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const first = await client.submit(CLASSIFY, { idempotencyKey: "order-1" });
    expect(await client.submit(CLASSIFY, { idempotencyKey: "order-1" })).toEqual(first);
    expect(await client.submit(CLASSIFY)).not.toEqual(first);
    const error = await rejection(client.submit({ ...CLASSIFY, input: "other" }, { idempotencyKey: "order-1" }));
    expect(error).toMatchObject({ name: "ConflictError", code: "conflict", status: 409, reason: "idempotency_key_reused" });
    expect(router.jobs.size).toBe(2);
  });

  it("every commit has its own random key", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    await client.submit(CLASSIFY);
    await client.submit(CLASSIFY);
    const keys = router.to("/v1/jobs/commit").map(({ headers }) => headers["idempotency-key"]);
    expect(new Set(keys).size).toBe(2);
    for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/);
  });

  it("quote and health return the answers of the router", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    expect(await client.quote("TASK", "FAST")).toEqual({
      price: "$0.003",
      endpoint: "/v1/jobs/commit/fast",
      policy_resolved: "FAST",
      network: "eip155:10143",
      expires_at: null,
    });
    expect((await client.quote("LLM_INFER")).policy_resolved).toBe("FAST");
    expect(await client.health()).toMatchObject({ status: "ok", workers_online: 1 });
  });

  it("an unknown job is a NotFoundError", async () => {
    const router = await RouterServer.start();
    const error = await rejection(router.client().get("00000000-0000-4000-8000-000000000000"));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ code: "not_found", status: 404, reason: "Job not found" });
  });
});
