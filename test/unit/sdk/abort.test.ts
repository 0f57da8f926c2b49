import { describe, expect, it, onTestFinished } from "vitest";
import type { ComputeRouter, JobList } from "../../../src/sdk/index.ts";
import { hangMidBody, paused, rejection, reply } from "./support/faults.ts";
import { RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const ID = "00000000-0000-4000-8000-000000000000";

type Call = (client: ComputeRouter, signal: AbortSignal) => Promise<unknown>;
const calls: [string, `${"GET" | "POST" | "DELETE"} ${string}`, Call][] = [
  ["run, quoting", "GET /v1/quote", (client, signal) => client.run(CLASSIFY, { signal })],
  ["run, committing", "POST /v1/jobs/commit", (client, signal) => client.run(CLASSIFY, { signal })],
  ["run, polling", "GET /v1/jobs", (client, signal) => client.run(CLASSIFY, { signal })],
  ["a helper", "GET /v1/quote", (client, signal) => client.classify("x", { signal })],
  ["submit", "POST /v1/jobs/commit", (client, signal) => client.submit(CLASSIFY, { signal })],
  ["waitFor", "GET /v1/jobs", (client, signal) => client.waitFor(ID, { signal })],
  ["get", "GET /v1/jobs", (client, signal) => client.get(ID, { signal, wait: 5 })],
  ["quote", "GET /v1/quote", (client, signal) => client.quote("TASK", "AUTO", { signal })],
  ["models", "GET /v1/models", (client, signal) => client.models({ signal })],
  ["cancel", "DELETE /v1/jobs", (client, signal) => client.cancel({ jobId: ID, cancelToken: "x" }, { signal })],
  ["health", "GET /v1/health", (client, signal) => client.health({ signal })],
  ["trust.create", "POST /v1/trust/create", (client, signal) => client.trust.create({ signal })],
  ["trust.claim", "POST /v1/trust/claim", (client, signal) => client.trust.claim({ pairing_code: "A", provider_pubkey: "b" }, { signal })],
  ["trust.list", "GET /v1/trust/list", (client, signal) => client.trust.list({ signal })],
];

describe("abort", () => {
  it.each(calls)("%s rejects with the signal's reason, closes its request and sends no other request", async (_title, route, call) => {
    const router = await RouterServer.start();
    const { fault, arrived } = paused();
    const closed = new Promise<void>((resolve) =>
      router.fail(route, (response, request, proceed) => {
        response.on("close", resolve);
        fault(response, request, proceed);
      }),
    );
    const controller = new AbortController();
    const answer = rejection(call(router.client({ cancelOnAbort: false }), controller.signal));
    await arrived;
    const before = router.received.length;
    const reason = new Error("enough");
    controller.abort(reason);
    expect(await answer).toBe(reason);
    await closed;
    expect(router.received).toHaveLength(before);
  });

  it.each(calls)("%s sends nothing if the signal is already aborted", async (_title, _route, call) => {
    const router = await RouterServer.start();
    expect(await rejection(call(router.client(), AbortSignal.abort("before")))).toBe("before");
    expect(router.received).toEqual([]);
  });

  it("ends a pause between retries, a pause between polls and a half-read body", async () => {
    const router = await RouterServer.start();
    const during = async (call: (signal: AbortSignal) => Promise<unknown>): Promise<void> => {
      const controller = new AbortController();
      const answer = rejection(call(controller.signal));
      setTimeout(() => controller.abort("enough"), 60);
      const start = performance.now();
      expect(await answer).toBe("enough");
      expect(performance.now() - start).toBeLessThan(1_000);
    };
    router.fail("GET /v1/health", reply(429, { error: "rate_limited" }, { "retry-after": "5" }));
    await during((signal) => router.client().health({ signal }));
    await during((signal) => router.client({ pollInterval: 5_000 }).run(CLASSIFY, { signal }));
    router.fail("GET /v1/health", hangMidBody);
    await during((signal) => router.client().health({ signal }));
  });

  it("works with a fetch that ignores signals", async () => {
    const router = await RouterServer.start();
    const deaf: typeof fetch = () => new Promise(() => {});
    expect(await rejection(router.client({ fetch: deaf, requestTimeout: 50, maxRetries: 0 }).health())).toMatchObject({ reason: "timeout" });
    const controller = new AbortController();
    const answer = rejection(router.client({ fetch: deaf }).health({ signal: controller.signal }));
    controller.abort("enough");
    expect(await answer).toBe("enough");
  });

  it.each<[string, Call]>([
    ["jobs", (client, signal) => client.jobs({ signal })],
    ["cancel", (client, signal) => client.cancel(ID, { signal })],
  ])("before %s leaves no rejection of the list of jobs, which would end the process", async (_title, call) => {
    const router = await RouterServer.start();
    const unhandled: unknown[] = [];
    const listener = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", listener);
    onTestFinished(() => void process.off("unhandledRejection", listener));
    const jobList: JobList = { add: () => {}, all: () => Promise.reject(new Error("disk full")) };
    expect(await rejection(call(router.client({ jobList }), AbortSignal.abort("before")))).toBe("before");
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });

  it("leaves no listener on the caller's signal", async () => {
    const router = await RouterServer.start();
    const { signal } = new AbortController();
    const counted = { added: 0, removed: 0 };
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => (counted.added++, add(...args));
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (counted.removed++, remove(...args));
    await router.client().run(CLASSIFY, { signal });
    expect(counted.added).toBeGreaterThan(0);
    expect(counted.removed).toBe(counted.added);
  });
});
