import { describe, expect, test, vi } from "vitest";
import { TestHub } from "../support/worker-hub.ts";

const LLM = { job_type: "LLM_INFER" };
const ACKS = { features: ["ack"] };

/** Fails the job of this worker. */
const failed = (job: { job_id: string; attempt: number }, fields: object) => ({
  ...{ type: "job_failed", job_id: job.job_id, attempt: job.attempt, error: "runtime_error", retryable: false },
  ...fields,
});

describe("a worker's message about a failure", () => {
  test("[JB5] is the failed job's message: from the hub, from D1, and after the hub's memory is lost", async () => {
    const hub = new TestHub();
    const worker = await hub.worker(ACKS);
    const id = await hub.commit("cheap", LLM);
    const result = { error: "worker_error", message: "the model is out of memory" };
    worker.send(failed(await worker.assigned(), { message: result.message }));
    await expect.poll(async () => (await hub.job(id)).status).toBe("failed");
    expect(await hub.job(id)).toMatchObject({ result, receipt: null, completed_at: null });
    expect((await hub.recorded(id, "failed")).result).toBe(JSON.stringify(result));
    await hub.evict();
    expect((await hub.job(id)).result).toEqual(result);
  });

  test("[JB5] survives the loss of the hub's memory while the job waits again, and is that of the last attempt", async () => {
    const hub = new TestHub();
    const first = await hub.worker(ACKS);
    const id = await hub.commit("cheap", LLM);
    first.send(failed(await first.assigned(), { message: "first", retryable: true }));
    first.send({ type: "drain" });
    await first.next("drained");
    await hub.evict();
    const second = await hub.worker(ACKS);
    second.send(failed(await second.assigned(), { message: "second", retryable: true }));
    second.send({ type: "drain" });
    await second.next("drained");
    await hub.evict();
    expect((await hub.job(id)).status).toBe("pending");
    await hub.pass(31_000);
    expect((await hub.job(id)).result).toEqual({ error: "worker_error", message: "second" });
  });

  test("[JB5] is absent if the worker sent none, and is never logged", async () => {
    const lines: string[] = [];
    for (const level of ["log", "warn", "error"] as const) vi.spyOn(console, level).mockImplementation((line) => void lines.push(String(line)));
    const hub = new TestHub();
    const worker = await hub.worker(ACKS);
    const quiet = await hub.commit("cheap", LLM);
    worker.send(failed(await worker.assigned(), { message: null }));
    const loud = await hub.commit("cheap", LLM);
    worker.send(failed(await worker.assigned(), { message: "prompt: SECRET-WORDS" }));
    await expect.poll(async () => (await hub.job(loud)).status).toBe("failed");
    await hub.recorded(loud, "failed");
    expect((await hub.job(quiet)).result).toEqual({ error: "worker_error" });
    expect(lines.join("\n")).not.toContain("SECRET-WORDS");
    vi.restoreAllMocks();
  });
});

describe("failures with their own cause", () => {
  test.each([
    ["a number", 4096, 8192],
    ["a map", { tiny: 4096 }, { tiny: 8192, other: 1 }],
    ["a number and a map", 4096, { other: 512, tiny: 8192 }],
    ["a map without the model that runs the job", 4096, { other: 512, third: 8192 }],
  ])("[JB5, WS3] after context_length_exceeded the job goes to a worker that announces a larger context, as %s", async (_title, small, large) => {
    const hub = new TestHub();
    const first = await hub.worker({ ...ACKS, models: ["tiny"], context: small });
    const same = await hub.worker({ ...ACKS, models: ["tiny"], context: small });
    const untold = await hub.worker({ ...ACKS, models: ["tiny"] });
    const id = await hub.commit("cheap", LLM);
    const larger = await hub.worker({ ...ACKS, models: ["tiny", "other"], context: large });
    // The announcements of sockets survive a loss of the hub's memory.
    await hub.evict();
    first.send(failed(await first.assigned(), { error: "context_length_exceeded", retryable: true }));
    const again = await larger.assigned();
    expect(again).toMatchObject({ job_id: id, attempt: 2 });
    for (const worker of [same, untold]) {
      expect(worker.texts.join()).not.toContain("job_assign");
      worker.close();
    }
    await hub.online(2);
    larger.send(failed(again, { error: "context_length_exceeded", message: "9000 tokens", retryable: true }));
    await expect.poll(async () => (await hub.job(id)).result).toEqual({ error: "context_length_exceeded", message: "9000 tokens" });
  });

  test("[JB5, WS3, JB10] for a job that names a model the contexts of that model count, whatever its case and place in the list", async () => {
    const hub = new TestHub();
    const first = await hub.worker({ ...ACKS, models: ["Big"], context: { BIG: 8192 } });
    const id = await hub.commit("cheap", { ...LLM, payload: { prompt: "hi", model: "big" } });
    const others = [
      await hub.worker({ ...ACKS, models: ["other", "big"], context: { other: 100_000, big: 4096 } }),
      await hub.worker({ ...ACKS, models: ["big", "other"], context: { other: 100_000 } }),
    ];
    const larger = await hub.worker({ ...ACKS, models: ["small", "big"], context: { small: 4096, big: 32_768 } });
    await hub.evict();
    first.send(failed(await first.assigned(), { error: "context_length_exceeded", retryable: true }));
    expect(await larger.assigned()).toMatchObject({ job_id: id, attempt: 2 });
    for (const worker of others) expect(worker.texts.join()).not.toContain("job_assign");
  });

  test("[WS3] a context that is null, or of a model called constructor, counts as not announced", async () => {
    const hub = new TestHub();
    const workers = [await hub.worker({ ...ACKS, context: null }), await hub.worker({ ...ACKS, models: ["constructor"], context: {} })];
    const id = await hub.commit("cheap", LLM);
    // Neither is larger than the other, so each is asked once.
    for (const worker of workers) worker.send(failed(await worker.assigned(), { error: "context_length_exceeded" }));
    await expect.poll(async () => (await hub.job(id)).result).toEqual({ error: "context_length_exceeded" });
  });
});

describe("a result over the limit of a frame", () => {
  test("[LM1, JB5] ends the attempt at once, and the third ends the job with output_too_large", async () => {
    const hub = new TestHub();
    const workers = [await hub.worker(ACKS), await hub.worker(ACKS), await hub.worker(ACKS)];
    const id = await hub.commit("cheap", LLM);
    for (const worker of workers) {
      const job = await worker.assigned();
      worker.send(worker.completion(job, "x".repeat(2 * 1024 * 1024)));
      // Acknowledged, so that it is not assigned again after the reconnect.
      expect(await worker.next("job_complete_ack")).toEqual({
        ...{ type: "job_complete_ack", job_id: id, status: "rejected", error: "output_too_large" },
        message: "the output is too large: at most 1048576 bytes as JSON text are allowed",
      });
      expect(await worker.closed()).toBe(1009);
    }
    expect((await hub.job(id)).result).toEqual({ error: "output_too_large" });
  });

  test("[LM1] one that does not name its job closes the socket, and the lease gets its grace time", async () => {
    const hub = new TestHub();
    const worker = await hub.worker(ACKS);
    const other = await hub.worker(ACKS);
    const id = await hub.commit("cheap", LLM);
    const job = await worker.assigned();
    worker.send(worker.completion({ ...job, job_id: crypto.randomUUID() }, "x".repeat(2 * 1024 * 1024)));
    expect(await worker.closed()).toBe(1009);
    expect((await hub.job(id)).status).toBe("running");
    expect(other.texts.join()).not.toContain("job_assign");
  });
});
