import { describe, expect, test } from "vitest";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { verifyReceipt } from "../../../src/receipt/index.ts";
import { TestHub } from "../support/worker-hub.ts";

const LLM = { job_type: "LLM_INFER" };
const OUTPUT = { summary: "s", word_count: 1 };

describe("job_assign", () => {
  test("[WS8] the payload of a second attempt is the same, after the hub lost its memory too", async () => {
    const hub = new TestHub();
    const [one] = [await hub.worker()];
    await hub.commit("cheap", { payload: { input: "i", task_type: "classify", more: "m" } });
    const first = await one.next("job_assign");
    await hub.evict();
    const two = await hub.worker();
    one.send({ type: "job_failed", job_id: first.job_id, attempt: 1, error: "busy", retryable: true });
    expect(await two.next("job_assign")).toEqual({ ...first, attempt: 2 });
  });
});

describe("an outage", () => {
  test("[JB4] [JB9] does not end the jobs that waited: a worker that comes back after it gets them", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    await hub.evict();
    hub.skip(2 * TIMING.claimWindow);
    expect((await hub.job(id)).status).toBe("pending");
    await hub.pass(TIMING.claimWindow);
    expect((await hub.job(id)).status).toBe("pending");
    const worker = await hub.worker();
    expect(await worker.next("job_assign")).toMatchObject({ job_id: id, attempt: 1 });
  });

  test("[JB4] is none if the hub has lost its memory and went on at once: the window ends in its time", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    hub.skip(TIMING.claimWindow - TUNING.outage);
    await hub.pass(0);
    await hub.evict();
    await hub.pass(TUNING.outage);
    expect((await hub.job(id)).result).toMatchObject({ error: "no_eligible_worker" });
  });
});

describe("during a job", () => {
  test("[JB4] a renewal survives the loss of the hub's memory: a job with progress does not time out", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    worker.send({ type: "job_ack", job_id: id, attempt: 1 });
    await worker.quiet();
    hub.skip(25_000);
    worker.send({ type: "job_progress", job_id: id, attempt: 1, seq: 0, delta: "d" });
    await worker.quiet();
    await hub.evict();
    hub.skip(20_000);
    await worker.quiet();
    await hub.pass(0);
    // 53 s after the acknowledgement, 28 s after the progress.
    await hub.pass(8_000);
    expect((await hub.job(id)).status).toBe("running");
  });

  test("[PY9] progress without text is a sign of life, and counts as no text", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit("cheap", LLM);
    await worker.assigned();
    const streamed = async () => JSON.stringify(await hub.sql(`SELECT * FROM jobs WHERE id = '${id}'`));
    worker.send({ type: "job_progress", job_id: id, attempt: 1, seq: 0, delta: "" });
    await worker.quiet();
    expect((await hub.job(id)).status).toBe("running");
    expect(await streamed()).not.toMatch(/streamed\\*":true/);
    worker.send({ type: "job_progress", job_id: id, attempt: 1, seq: 1, delta: "t" });
    await worker.quiet();
    expect(await streamed()).toMatch(/streamed\\*":true/);
  });

  test.for(["job_ack", "job_progress"])("[WS9] [WS11] a %s of a job that is not held is told job_cancel", async (type) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned({ acks: false });
    const cancel = (jobId: string, attempt: number) => ({ type: "job_cancel", job_id: jobId, attempt, reason: "not_assigned" });
    worker.send({ type, job_id: id, attempt: 2, seq: 0, delta: "" });
    expect(await worker.next("job_cancel")).toEqual(cancel(id, 2));
    worker.send({ type, job_id: "other", attempt: 1, seq: 0, delta: "" });
    expect(await worker.next("job_cancel")).toEqual(cancel("other", 1));
    expect((await hub.job(id)).status).toBe("assigned");
  });
});

describe("job_complete", () => {
  test("[WS10] attempt may be left out or null", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (const attempt of [undefined, null]) {
      await hub.commit();
      expect((await worker.complete(await worker.assigned(), OUTPUT, { attempt })).status).toBe("accepted");
    }
  });

  test("[WS10] the same receipt again is duplicate: from the hub's memory, its journal and D1", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const frame = worker.completion(await worker.assigned(), OUTPUT);
    worker.send(frame);
    expect((await worker.next("job_complete_ack")).status).toBe("accepted");
    const duplicate = { type: "job_complete_ack", job_id: id, status: "duplicate" };
    worker.send(frame);
    expect(await worker.next("job_complete_ack")).toEqual(duplicate);
    const before = (await hub.request(`/v1/jobs/${id}`)).text;
    await hub.recorded(id, "completed");
    worker.send(frame);
    expect(await worker.next("job_complete_ack")).toEqual(duplicate);
    await hub.evict();
    worker.send(frame);
    expect(await worker.next("job_complete_ack")).toEqual(duplicate);
    expect((await hub.request(`/v1/jobs/${id}`)).text).toBe(before);
  });

  test("[WS10] the same frame twice at once is accepted, then duplicate", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const frame = worker.completion(await worker.assigned(), OUTPUT);
    worker.send(frame);
    worker.send(frame);
    expect((await worker.next("job_complete_ack")).status).toBe("accepted");
    expect((await worker.next("job_complete_ack")).status).toBe("duplicate");
  });

  test("[WS10] [RC5] another result of a worker that held the job is already_terminal, and nothing changes", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    await worker.complete(job, OUTPUT);
    const before = (await hub.request(`/v1/jobs/${id}`)).text;
    const rejected = { type: "job_complete_ack", job_id: id, status: "rejected", error: "already_terminal", message: "the job has ended" };
    expect(await worker.complete(job, { summary: "other" })).toEqual(rejected);
    await hub.recorded(id, "completed");
    expect(await worker.complete(job, { summary: "third" })).toEqual(rejected);
    expect((await hub.request(`/v1/jobs/${id}`)).text).toBe(before);
  });

  test("[WS10] a result after the job failed is already_terminal", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    worker.send({ type: "job_failed", job_id: id, attempt: 1, error: "e", retryable: false });
    expect(await worker.complete(job)).toMatchObject({ status: "rejected", error: "already_terminal" });
    await hub.recorded(id, "failed");
    expect(await worker.complete(job)).toMatchObject({ status: "rejected", error: "already_terminal" });
    expect((await hub.job(id)).status).toBe("failed");
  });

  test("[WS12] a result of a worker that never held the job is not_assigned: while it waits, while another holds it, when it has ended", async () => {
    const hub = new TestHub();
    const stranger = await hub.worker({ capabilities: [] });
    const id = await hub.commit();
    const refused = { type: "job_complete_ack", job_id: id, status: "rejected", error: "not_assigned", message: "this key never held the job" };
    expect(await stranger.complete({ job_id: id, attempt: 1 })).toEqual(refused);
    const holder = await hub.worker();
    const job = await holder.assigned();
    expect(await stranger.complete(job)).toEqual(refused);
    await holder.complete(job, { summary: "mine" });
    expect(await stranger.complete(job)).toEqual(refused);
    await hub.recorded(id, "completed");
    expect(await stranger.complete(job)).toEqual(refused);
    expect((await hub.job(id)).result).toEqual({ summary: "mine" });
  });
});

describe("outputs", () => {
  test("[RC2] the text that was hashed is the text that is returned: integer-like keys, numbers, __proto__, every plane", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit("cheap", LLM);
    const job = await worker.assigned();
    const text = '{"b":1.0,"10":1e2,"2":-0,"__proto__":{"x":"é𝔘\\u0000\\ud83d\\ude00"},"a":"\\/"}';
    const output: unknown = JSON.parse(text);
    const { output: _, ...frame } = worker.completion(job, output);
    worker.send(`{"output":${text},${JSON.stringify(frame).slice(1)}`);
    expect((await worker.next("job_complete_ack")).status).toBe("accepted");
    const hot = (await hub.request(`/v1/jobs/${id}`)).text;
    expect(hot).toContain(`"result":${JSON.stringify(output)},`);
    const done = await hub.job(id);
    expect(done.receipt && verifyReceipt(done.receipt, done.result)).toEqual({ ok: true });
    const row = await hub.recorded(id, "completed");
    expect(row.result).toBe(JSON.stringify(output));
  });
});
