import { LIMITS } from "../../../src/protocol/limits.ts";
import { describe, expect, test } from "vitest";
import { verifyReceipt } from "../../../src/receipt/index.ts";
import { toBase64, toHex } from "../../../src/receipt/bytes.ts";
import { TestHub } from "../support/worker-hub.ts";

const LLM = { job_type: "LLM_INFER" };
const OUTPUT = { summary: "s", word_count: 1 };

describe("job_assign", () => {
  test("[WS8] the payload is unchanged: order, unknown members, numbers and text; an absent job_type is added first", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const sent =
      '{"zeta":1.0,"task_type":"classify","input":"é \\"x\\" \\ud83d\\ude00","alpha":{"b":[1e400, {"y":12345678901234567890,"x":1}],"a":null},"10":1,"zeta":2 }';
    await hub.request("/v1/jobs/commit/cheap", { method: "POST", body: `{"job_type":"TASK","user_id":"u","payload":${sent}}` });
    const first = await worker.assigned();
    expect(worker.texts.at(-1)).toContain(`"payload":{"job_type":"TASK",${sent.slice(1)},`);
    await worker.complete(first);
    const own = '{"input":"i","job_type":"TASK","task_type":"classify"}';
    await hub.request("/v1/jobs/commit/cheap", { method: "POST", body: `{"job_type":"TASK","user_id":"u","payload":${own}}` });
    await worker.assigned();
    expect(worker.texts.at(-1)).toContain(`"payload":${own},`);
  });

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

describe("during a job", () => {
  test("[WS9] [JB1] assigned at the claim, running at job_ack, null result and receipt until the end", async () => {
    const hub = new TestHub();
    const waiting = await hub.commit();
    expect(await hub.job(waiting)).toMatchObject({ status: "pending", result: null, receipt: null, completed_at: null });
    const worker = await hub.worker();
    const job = await worker.assigned({ acks: false });
    expect(await hub.job(waiting)).toMatchObject({ status: "assigned", result: null, receipt: null });
    worker.send({ type: "job_ack", job_id: job.job_id, attempt: 1 });
    await worker.quiet();
    expect(await hub.job(waiting)).toMatchObject({ status: "running", result: null, receipt: null });
    await worker.complete(job);
    expect(await hub.job(waiting)).toMatchObject({ status: "completed", result: OUTPUT });
  });

  test("[WS9] a worker that announced ack and does not acknowledge in 5 s loses the lease", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker({ features: ["resume", "ack"] });
    const id = await hub.commit();
    await worker.assigned({ acks: false });
    await hub.pass(4_999);
    await worker.quiet();
    const other = await hub.worker();
    await hub.pass(1);
    expect(await worker.next("job_cancel")).toEqual({ type: "job_cancel", job_id: id, attempt: 1, reason: "ack_timeout" });
    expect(await other.assigned()).toMatchObject({ job_id: id, attempt: 2 });
  });

  test("[WS9] with a worker that did not announce ack the job goes from assigned to completed", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.plainWorker();
    const id = await hub.commit();
    const job = await worker.assigned();
    await hub.pass(10_000);
    await worker.quiet();
    expect((await hub.job(id)).status).toBe("assigned");
    expect((await worker.complete(job)).status).toBe("accepted");
  });

  test.for([
    ["TASK", 30_000],
    ["LLM_INFER", 60_000],
  ] as const)("[JB4] a %s attempt may take %i ms", async ([type, limit]) => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.plainWorker();
    const id = await hub.commit("cheap", { job_type: type });
    await worker.assigned();
    hub.skip(limit - 1);
    await worker.quiet();
    await hub.pass(0);
    await worker.quiet();
    expect((await hub.job(id)).status).toBe("assigned");
    await hub.pass(1);
    expect(await worker.next("job_cancel")).toMatchObject({ job_id: id, attempt: 1, reason: "execution_timeout" });
    expect((await hub.job(id)).status).toBe("pending");
  });

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

  test.for(["job_ack", "job_progress"])("[JB4] [WS9] %s renews the execution time", async (type) => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    for (let seq = 0; seq < 3; seq++) {
      hub.skip(25_000);
      worker.send({ type, job_id: id, attempt: 1, seq, delta: "d" });
      await worker.quiet();
      await hub.pass(0);
    }
    expect((await hub.job(id)).status).toBe("running");
    hub.skip(29_999);
    await worker.quiet();
    await hub.pass(0);
    expect((await hub.job(id)).status).toBe("running");
    await hub.pass(1);
    expect(await worker.next("job_cancel")).toMatchObject({ reason: "execution_timeout" });
  });

  test("[JB4] no progress carries a job beyond 180 s: deadline_exceeded", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    for (let seq = 0; seq < 7; seq++) {
      hub.skip(25_000);
      worker.send({ type: "job_progress", job_id: id, attempt: 1, seq, delta: "d" });
      await worker.quiet();
      await hub.pass(0);
    }
    expect((await hub.job(id)).status).toBe("running");
    await hub.pass(5_000);
    expect(await worker.next("job_cancel")).toMatchObject({ job_id: id, attempt: 1, reason: "deadline_exceeded" });
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "deadline_exceeded" }, receipt: null, completed_at: null });
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

  test("[WS9] job_reject uses no attempt, and a job that was only rejected ends as no_eligible_worker", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const [one, two] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    for (const worker of [one, two]) {
      expect(await worker.assigned()).toMatchObject({ job_id: id, attempt: 1 });
      worker.send({ type: "job_reject", job_id: id, reason: "no model" });
    }
    await two.quiet();
    expect((await hub.job(id)).status).toBe("pending");
    one.close();
    two.close();
    await hub.online(0);
    await hub.pass(30_000);
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" } });
  });
});

describe("job_complete", () => {
  test("[WS10] [RC1] is accepted once it is durable; REST returns the receipt as signed and completed_at", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    const frame = worker.completion(job, OUTPUT);
    worker.send(frame);
    expect(await worker.next("job_complete_ack")).toEqual({ type: "job_complete_ack", job_id: id, status: "accepted" });
    const done = await hub.job(id);
    expect(done).toMatchObject({ status: "completed", result: OUTPUT, completed_at: expect.any(String) });
    expect(done.receipt).toEqual({ ...(frame.receipt as object), signature: frame.receipt_signature });
    expect(done.receipt && verifyReceipt(done.receipt, done.result)).toEqual({ ok: true });
  });

  test("[WS10] [RC1] a signature inside the receipt or in hex is read, and returned in base64", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (const place of ["inside", "hex", "inside hex", "null outside", "without padding"]) {
      const id = await hub.commit();
      const job = await worker.assigned();
      const { signature, ...receipt } = worker.receipt(id, OUTPUT);
      const bytes = Uint8Array.from(atob(signature), (char) => char.charCodeAt(0));
      const sent = place.includes("hex") ? toHex(bytes) : place.includes("padding") ? signature.replace(/=+$/, "") : signature;
      const fields =
        place.includes("inside") || place.includes("null")
          ? { receipt: { ...receipt, signature: sent }, receipt_signature: place.includes("null") ? null : undefined }
          : { receipt_signature: sent };
      expect((await worker.complete(job, OUTPUT, fields)).status, place).toBe("accepted");
      const done = await hub.job(id);
      expect(done.receipt?.signature, place).toBe(toBase64(bytes));
      expect((await hub.recorded(id, "completed")).status).toBe("completed");
    }
  });

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

  test("[WS10] a job nobody knows is unknown_job", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = crypto.randomUUID();
    expect(await worker.complete({ job_id: id, attempt: 1 })).toEqual({
      type: "job_complete_ack",
      job_id: id,
      status: "rejected",
      error: "unknown_job",
      message: "no job has this id",
    });
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

  test("[JB6] [WS12] a late result of an earlier holder wins, and the present one is cancelled", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const early = await hub.worker();
    const id = await hub.commit();
    const job = await early.assigned();
    const late = await hub.worker();
    await hub.pass(20_000);
    await Promise.all([early.quiet(), late.quiet()]);
    await hub.pass(10_000);
    expect(await early.next("job_cancel")).toMatchObject({ job_id: id, attempt: 1 });
    const second = await late.assigned();
    expect(second).toMatchObject({ job_id: id, attempt: 2 });
    expect((await early.complete(job, { summary: "early" })).status).toBe("accepted");
    expect(await late.next("job_cancel")).toMatchObject({ job_id: id, attempt: 2, reason: "completed" });
    expect(await late.complete(second, { summary: "late" })).toMatchObject({ status: "rejected", error: "already_terminal" });
    expect(await hub.job(id)).toMatchObject({ result: { summary: "early" }, receipt: { provider_pubkey: early.key.publicKey } });
  });

  test("[JB6] a late result counts while the job waits for another worker", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    worker.send({ type: "job_failed", job_id: id, attempt: 1, error: "e", retryable: true });
    await worker.quiet();
    expect((await hub.job(id)).status).toBe("pending");
    expect((await worker.complete(job)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
  });
});

describe("outputs", () => {
  test.for([
    ["a string", "text", { output: "text" }],
    ["an empty string", "", { output: "" }],
    ["an object", { b: 1, a: [{}] }, { b: 1, a: [{}] }],
    ["an empty object", {}, {}],
    [
      "our LLM worker's",
      { model: "m", output: "o", usage: { completion_tokens: 1, prompt_tokens: 2 } },
      { model: "m", output: "o", usage: { completion_tokens: 1, prompt_tokens: 2 } },
    ],
    ["an error with more to it", { error: "e", code: 1 }, { error: "e", code: 1 }],
    ["an error that is no string", { error: 1 }, { error: 1 }],
  ] as const)("[JB7] %s is stored as it should be, and its receipt verifies", async ([, output, result]) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    expect((await worker.complete(await worker.assigned(), output)).status).toBe("accepted");
    const done = await hub.job(id);
    expect(done.result).toEqual(result);
    expect(done.receipt && verifyReceipt(done.receipt, done.result)).toEqual({ ok: true });
  });

  test("[JB5, JB11] an object with only a string error is worker_error and not a completion; another worker is asked before the job ends", async () => {
    const hub = new TestHub();
    const [one, two] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    expect((await one.complete(await one.assigned(), { error: "no model" })).status).toBe("accepted");
    expect((await two.complete(await two.assigned(), { error: "no model" })).status).toBe("accepted");
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "worker_error" }, receipt: null, completed_at: null });
    await one.quiet();
  });

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

  test("[LM1] an output of more than 1 MiB is output_too_large, and in the last attempt it ends the job", async () => {
    const hub = new TestHub();
    const workers = [await hub.worker(), await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    // With its quotes one byte too many.
    const output = "x".repeat(LIMITS.outputBytes - 1);
    for (const worker of workers) {
      const job = await worker.assigned();
      expect(await worker.complete(job, output)).toMatchObject({ status: "rejected", error: "output_too_large" });
    }
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "output_too_large" } });
  });
});
