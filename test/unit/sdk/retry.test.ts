import { getEventListeners } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { describeBreak } from "../../../src/sdk/connection.ts";
import { backoff, openLimit, readRetryAfter, sleep, untilAborted, untilDone } from "../../../src/sdk/retry.ts";
import { RateLimitedError, RouterConnectionError, UnavailableError } from "../../../src/sdk/index.ts";
import { closedUrl, hang, hangMidBody, loseAnswer, rejection, reply, reset, resetMidBody } from "./support/faults.ts";
import { type Fault, RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

const transient: [string, Fault][] = [
  ["a reset", reset],
  ["a reset in the middle of the body", resetMidBody],
  ["a 429", reply(429, { error: "rate_limited" }, { "retry-after": "0" })],
  ["a 502", reply(502, "Bad Gateway")],
  ["a 503", reply(503, { error: "overloaded" }, { "retry-after": "0" })],
  ["a 504", reply(504, "Gateway Timeout")],
];

describe("retries", () => {
  it.each(transient)("a GET is repeated after %s twice, but not three times", async (_title, fault) => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", fault, fault);
    expect(await router.client().health()).toMatchObject({ status: "ok" });
    expect(router.received).toHaveLength(3);
    router.fail("GET /v1/health", fault, fault, fault);
    expect(await rejection(router.client().health())).toHaveProperty("code", expect.stringMatching(/^(connection_failed|rate_limited|unavailable)$/));
    expect(router.received).toHaveLength(6);
  });

  it.each([...transient, ["a lost answer", loseAnswer] as [string, Fault]])(
    "[API5] a commit is repeated after %s with the same key, and makes one job",
    async (_title, fault) => {
      const router = await RouterServer.start();
      router.fail("POST /v1/jobs/commit", fault, fault);
      expect(await router.client().run(CLASSIFY)).toMatchObject({ verified: true });
      const commits = router.to("/v1/jobs/commit");
      expect(commits).toHaveLength(3);
      expect(new Set(commits.map(({ headers, body }) => `${String(headers["idempotency-key"])} ${body}`)).size).toBe(1);
      expect(router.jobs.size).toBe(1);
    },
  );

  it.each([
    ["a hanging answer", hang],
    ["a body that never ends", hangMidBody],
  ] as const)("%s is cut off by the request timeout and repeated", async (_title, fault) => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", fault);
    expect(await router.client({ requestTimeout: 60 }).health()).toMatchObject({ status: "ok" });
    router.fail("GET /v1/health", fault);
    const error = await rejection(router.client({ requestTimeout: 60, maxRetries: 0 }).health());
    expect(error).toBeInstanceOf(RouterConnectionError);
    expect(error).toMatchObject({ code: "connection_failed", reason: "timeout" });
  });

  it.each([400, 401, 404, 405, 409, 413, 422, 500, 501])("a %i is not repeated", async (status) => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reply(status, { error: "x" }));
    await expect(router.client().health()).rejects.toMatchObject({ status });
    expect(router.received).toHaveLength(1);
  });

  it("maxRetries 0 repeats nothing", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reset);
    expect(await rejection(router.client({ maxRetries: 0 }).health())).toMatchObject({ reason: "broken" });
    expect(router.received).toHaveLength(1);
  });

  it("[TR3] trust.create and trust.claim carry no key and are never repeated", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/trust/create", reset, reply(429, { error: "rate_limited" }, { "retry-after": "0" }));
    router.fail("POST /v1/trust/claim", reply(503, { error: "overloaded" }));
    const { trust } = router.client();
    expect(await rejection(trust.create())).toBeInstanceOf(RouterConnectionError);
    expect(await rejection(trust.create())).toBeInstanceOf(RateLimitedError);
    expect(await rejection(trust.claim({ pairing_code: "A00000", provider_pubkey: "00" }))).toBeInstanceOf(UnavailableError);
    expect(router.received).toHaveLength(3);
  });

  it("a router that is not there is a RouterConnectionError with the reason connect", async () => {
    const router = await RouterServer.start();
    const error = await rejection(router.client({ baseUrl: await closedUrl() }).health());
    expect(error).toBeInstanceOf(RouterConnectionError);
    expect(error).toMatchObject({ reason: "connect", status: null, requestId: null });
    expect(error.cause).toBeInstanceOf(Error);
  });

  it("each pause is twice as long as the one before, with a random quarter less at most", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reset, reset, reset);
    await router.client({ retryDelay: 40, maxRetries: 3 }).health();
    const times = router.received.map(({ at }) => at);
    const pauses = times.slice(1).map((time, i) => time - (times[i] ?? 0));
    for (const [i, pause] of pauses.entries()) expect(pause).toBeGreaterThan(40 * 2 ** i * 0.75 - 2);
  });
});

it("no pause is longer than sixteen times the first one, however many there were", () => {
  for (const repeated of [4, 5, 20, 2_000]) {
    const pause = backoff(500, repeated);
    expect(pause).toBeGreaterThan(6_000);
    expect(pause).toBeLessThanOrEqual(8_000);
  }
});

it("a pause and a wait leave nothing on the signal that outlives them", async () => {
  const { signal } = new AbortController();
  await sleep(1, untilAborted(signal));
  await untilDone(Promise.resolve(), untilAborted(signal));
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

it.each([
  ["ECONNREFUSED", "connect"],
  ["ENOTFOUND", "connect"],
  ["UND_ERR_CONNECT_TIMEOUT", "connect"],
  ["ECONNRESET", "broken"],
  ["EPIPE", "broken"],
  ["ETIMEDOUT", "broken"],
  ["UND_ERR_SOCKET", "broken"],
  ["UND_ERR_HEADERS_TIMEOUT", "broken"],
])("after %s the reason is %s: only what was never sent has had no effect", (code, reason) => {
  const cause = new TypeError("fetch failed", { cause: Object.assign(new Error("the system's words"), { code }) });
  expect(describeBreak("http://a.example", cause)).toMatchObject({ reason, message: expect.stringContaining(code) });
});

describe("Retry-After", () => {
  it("[API1] counts if it is longer than the pause", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reply(429, { error: "rate_limited" }, { "retry-after": "1" }));
    await router.client().health();
    const [first, second] = router.received.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThan(990);
  });

  it("ends the retries at once if it is longer than a minute or than the timeout", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reply(429, { error: "rate_limited" }, { "retry-after": "61" }));
    const error = await rejection(router.client().health());
    expect(error).toBeInstanceOf(RateLimitedError);
    expect(error).toMatchObject({ code: "rate_limited", status: 429, retryAfter: 61_000 });

    router.fail("POST /v1/jobs/commit", reply(503, { error: "queue_full" }, { "retry-after": "30" }));
    const start = performance.now();
    expect(await rejection(router.client().run(CLASSIFY, { timeout: 10_000 }))).toMatchObject({
      code: "unavailable",
      reason: "queue_full",
      retryAfter: 30_000,
    });
    expect(performance.now() - start).toBeLessThan(2_000);
  });

  it("[LM2] [PY9] a 429 of a quote or a commit is waited out once, and that time does not count as time of the job", async () => {
    const router = await RouterServer.start();
    const limited = reply(429, { error: "rate_limited" }, { "retry-after": "3" });
    for (const path of ["GET /v1/quote", "POST /v1/jobs/commit"] as const) {
      router.fail(path, limited);
      expect(await router.client().run(CLASSIFY, { timeout: 2_900 })).toMatchObject({ verified: true });
    }
    router.fail("POST /v1/jobs/commit", limited, limited);
    expect(await rejection(router.client().run(CLASSIFY, { timeout: 2_900 }))).toMatchObject({ code: "rate_limited", retryAfter: 3_000 });
    router.fail("POST /v1/jobs/commit", limited);
    expect(await rejection(router.client({ maxRetries: 0 }).run(CLASSIFY, { timeout: 2_900 }))).toMatchObject({ code: "rate_limited" });
  });

  it("[API1] is told to the caller before each wait of a quote, a commit or a poll", async () => {
    const router = await RouterServer.start();
    const waits: number[] = [];
    const limited = reply(429, { error: "rate_limited" }, { "retry-after": "1" });
    for (const path of ["GET /v1/quote", "POST /v1/jobs/commit", "GET /v1/jobs"] as const) router.fail(path, limited);
    router.fail("GET /v1/quote", reply(503, { error: "overloaded" }));
    await router.client().run(CLASSIFY, { onRateLimit: (wait) => waits.push(wait) });
    expect(waits).toEqual([1_000, 1_000, 1_000]);
    router.fail("GET /v1/quote", limited);
    const stop = new Error("the caller does not want to wait");
    const throwing = () => {
      throw stop;
    };
    await expect(router.client().stream(CLASSIFY, { onRateLimit: throwing }).result).rejects.toBe(stop);
  });

  it("is read as seconds or as a date", () => {
    const now = Date.parse("2026-11-21T00:00:00Z");
    expect(readRetryAfter(null, now)).toBeNull();
    expect(readRetryAfter("3", now)).toBe(3_000);
    expect(readRetryAfter("Sat, 21 Nov 2026 00:00:05 GMT", now)).toBe(5_000);
    expect(readRetryAfter("Sat, 21 Nov 2020 00:00:05 GMT", now)).toBe(0);
    expect(readRetryAfter("soon", now)).toBeNull();
    expect(readRetryAfter("-5x", now)).toBeNull();
  });
});

describe("a limit of more time than a timer can take", () => {
  it.each(["from the beginning", "after it was extended"])("does not end at once, %s", (when) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const most = 2 ** 31 - 1;
      const { limit, release } = openLimit(when === "from the beginning" ? most + 25_000 : most, untilAborted(), () => new Error("the time is over"));
      if (when === "after it was extended") limit.extendOnce?.(60_000);
      vi.advanceTimersByTime(1_000);
      expect(limit.signal.aborted).toBe(false);
      release();
    } finally {
      vi.useRealTimers();
    }
  });
});
