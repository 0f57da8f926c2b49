import { beforeAll, describe, expect, test } from "vitest";
import { ISO, llm, newUser, task, UUID } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { verifyText, receiptText, outputHash } from "../support/identity.ts";
import { stopwatch } from "../support/wait.ts";
import { fullWorker, specWorker, unsignedWorker, type WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };

beforeAll(async () => {
  evm = await start("evm");
});

async function owner(...workers: WorkerSocket[]): Promise<string> {
  const user = newUser();
  await evm.api.pair(user, ...workers);
  return user;
}

describe("assignment", () => {
  test("[WS8, SPEC] job_assign has the five fields, attempt and deadline, and never user_id", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = await owner(worker);
    const body = llm(user, "Say hi", { ...PRIVATE, payload: { job_type: "LLM_INFER", prompt: "Say hi", max_tokens: 5 } });
    for (const tier of ["fast", "cheap"] as const) {
      const id = await evm.api.commit(body, tier);
      const assign = await worker.assigned(id);
      expect(assign).toEqual({
        type: "job_assign",
        job_id: id,
        job_type: "LLM_INFER",
        payload: body.payload,
        policy: tier.toUpperCase(),
        privacy_class: "PRIVATE",
        attempt: 1,
        deadline: expect.stringMatching(ISO),
      });
      expect(JSON.stringify(assign)).not.toContain(user);
      const { created_at } = await evm.api.job(id);
      expect(Math.abs(Date.parse(String(assign.deadline)) - Date.parse(created_at) - 180_000)).toBeLessThan(1_000);
      await worker.complete(id, "hi");
    }
  });

  test("[WS8] the payload reaches the worker as it was sent: member order, unknown members, numbers, odd names", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = await owner(worker);
    const payload =
      '{"zeta":[1,{"b":null,"a":true}],"input":"héllo 🦊 \\u2028","task_type":"summarize","__proto__":{"x":1},"constructor":"c","a":{"z":1,"b":2},"e":-0.5,"job_type":"TASK","n":1e3}';
    const id = await evm.api.commit(`{"job_type":"TASK","user_id":${JSON.stringify(user)},"privacy_class":"PRIVATE","payload":${payload}}`);
    const assign = await worker.assigned(id);
    expect(JSON.stringify(assign.payload)).toBe(JSON.stringify(JSON.parse(payload)));
    await worker.complete(id, { summary: "h", word_count: 1 });
  });

  test("[WS8] an absent payload.job_type is added first", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = await owner(worker);
    const id = await evm.api.commit({ job_type: "TASK", user_id: user, ...PRIVATE, payload: { x: 1, input: "x", task_type: "classify" } });
    const assign = await worker.assigned(id);
    expect(JSON.stringify(assign.payload)).toBe('{"job_type":"TASK","x":1,"input":"x","task_type":"classify"}');
    await worker.complete(id, OUTPUT);
  });

  test("[JB1, SPEC] a plain worker takes a job from assigned to completed; the Job has its six fields and nothing else", async () => {
    const worker = await specWorker(evm.socketUrl);
    const user = await owner(worker);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    await worker.assigned(id);
    const assigned = await evm.api.job(id);
    expect(assigned).toEqual({ id, status: "assigned", result: null, receipt: null, created_at: expect.stringMatching(ISO), completed_at: null });
    const sent = worker.completion(id, OUTPUT);
    expect(await worker.ask(sent, "job_complete_ack")).toEqual({ type: "job_complete_ack", job_id: id, status: "accepted" });
    const job = await evm.api.job(id);
    expect(job).toEqual({
      id,
      status: "completed",
      result: OUTPUT,
      receipt: { ...(sent.receipt as object), signature: sent.receipt_signature },
      created_at: assigned.created_at,
      completed_at: expect.stringMatching(ISO),
    });
    expect(job.id).toMatch(UUID);
    const { signature, ...fields } = job.receipt as Record<string, unknown>;
    expect(verifyText(worker.pubkey, receiptText(fields), String(signature)), "[RC1]").toBe(true);
    expect(fields.output_hash, "[RC2]").toBe(outputHash(job.result));
  });

  test("[JB1, WS9] job_ack makes it running; result and receipt stay null", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const user = await owner(worker);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    const assign = await worker.assigned(id);
    worker.send({ type: "job_ack", job_id: id, attempt: 7 });
    await worker.settled();
    expect((await evm.api.job(id)).status, "an ack of another attempt").toBe("assigned");
    worker.ack(assign);
    await worker.settled();
    expect(await evm.api.job(id)).toMatchObject({ status: "running", result: null, receipt: null, completed_at: null });
    worker.ack(assign);
    for (const seq of [0, 0, 1, 5, 1]) worker.progress(assign, seq, "é");
    await worker.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect((await worker.complete(id, OUTPUT, { attempt: 1, output_hash: outputHash(OUTPUT) })).status).toBe("accepted");
    expect((await evm.api.job(id)).status).toBe("completed");
  });
});

describe("results", () => {
  test.each([
    ["a string", "hello", { output: "hello" }],
    ["an empty string", "", { output: "" }],
    ["a string of JSON", '{"a":1}', { output: '{"a":1}' }],
    ["an object", OUTPUT, OUTPUT],
    ["an object with output only", { output: "x" }, { output: "x" }],
    [
      "our LLM worker's",
      { model: "m", output: "x", usage: { completion_tokens: 1, prompt_tokens: 2 } },
      { model: "m", output: "x", usage: { completion_tokens: 1, prompt_tokens: 2 } },
    ],
    ["an empty object", {}, {}],
    ["error among others", { error: "x", output: "y" }, { error: "x", output: "y" }],
    ["error that is no string", { error: 5 }, { error: 5 }],
  ])("[JB7] %s output becomes the documented result", async (_name, output, result) => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = await owner(worker);
    const id = await evm.api.commit(llm(user, "x", PRIVATE));
    await worker.assigned(id);
    expect((await worker.complete(id, output)).status).toBe("accepted");
    expect((await evm.api.job(id)).result).toEqual(result);
  });

  test("[JB5] an object with only a string error is worker_error, not retried, not a completion", async () => {
    const holder = await unsignedWorker(evm.socketUrl);
    const user = await owner(holder);
    const id = await evm.api.commit(llm(user, "x", PRIVATE));
    await holder.assigned(id);
    holder.send(holder.completion(id, { error: "out of memory" }));
    expect(await evm.api.ended(id)).toMatchObject({ status: "failed", result: { error: "worker_error" }, receipt: null, completed_at: null });
    await holder.settled();
    expect((await evm.api.job(id)).status).toBe("failed");
  });

  test("[WS10, RC5] the same receipt again is duplicate; another one is already_terminal; nothing changes", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = await owner(worker);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    await worker.assigned(id);
    const sent = worker.completion(id, OUTPUT);
    const answered = (frame: object) => worker.ask(frame, "job_complete_ack");
    expect(await answered(sent)).toMatchObject({ status: "accepted" });
    const job = await evm.api.job(id);
    expect(await answered(sent)).toMatchObject({ job_id: id, status: "duplicate" });
    expect(await answered(worker.completion(id, { sentiment: "other", confidence: 0 }))).toMatchObject({
      job_id: id,
      status: "rejected",
      error: "already_terminal",
    });
    expect(await evm.api.job(id)).toEqual(job);
  });

  test("[WS10, SPEC] once job_complete_ack is there the result is: polled at once, 20 times", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = await owner(worker);
    for (let round = 0; round < 20; round += 1) {
      const id = await evm.api.commit(task(user, `x${round}`, PRIVATE));
      await worker.assigned(id);
      await worker.complete(id, OUTPUT);
      expect((await evm.api.job(id)).status).toBe("completed");
    }
  });
});

describe("failure and rejection", () => {
  test("[WS9, JB5] job_failed that is not retryable ends the job as worker_error", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const other = await fullWorker(evm.socketUrl, { capabilities: ["TASK"] });
    const user = await owner(worker, other);
    const id = await evm.api.commit(llm(user, "x", PRIVATE));
    const assign = await worker.assigned(id);
    worker.ack(assign);
    worker.send({ type: "job_failed", job_id: id, attempt: 1, error: "no model", message: "install one", retryable: false });
    expect(await evm.api.ended(id)).toMatchObject({ status: "failed", result: { error: "worker_error" }, receipt: null, completed_at: null });
    expect(await worker.complete(id, "late")).toMatchObject({ status: "rejected", error: "already_terminal" });
  });

  test("[WS9, JB4, JB2] job_failed that is retryable: another worker gets attempt 2 at once", async () => {
    const one = await fullWorker(evm.socketUrl);
    const user = await owner(one);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    const assign = await one.assigned(id);
    one.ack(assign);
    const two = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, two);
    const clock = stopwatch();
    one.fail(assign, true);
    const second = await two.assigned(id);
    expect(clock()).toBeLessThan(1_500);
    expect(second).toMatchObject({ attempt: 2 });
    two.ack(second);
    expect((await two.complete(id, OUTPUT)).status).toBe("accepted");
    expect((await evm.api.ended(id)).receipt).toMatchObject({ provider_pubkey: two.pubkey });
  });

  test("[JB4, JB5] three failed attempts end the job as worker_error", async () => {
    const workers = await Promise.all([1, 2, 3, 4].map(() => fullWorker(evm.socketUrl)));
    const user = await owner(...workers);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    const attempts: unknown[] = [];
    for (const worker of workers)
      void worker.assigned(id, 15_000).then(
        (assign) => {
          attempts.push(assign.attempt);
          worker.ack(assign);
          worker.fail(assign, true);
        },
        () => {},
      );
    const job = await evm.api.ended(id);
    expect(job).toMatchObject({ status: "failed", result: { error: "worker_error" }, receipt: null, completed_at: null });
    expect(attempts).toEqual([1, 2, 3]);
  });

  test("[WS9] job_reject uses no attempt: the next worker gets the same attempt number, at once", async () => {
    const one = await fullWorker(evm.socketUrl);
    const user = await owner(one);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    await one.assigned(id);
    const two = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, two);
    const clock = stopwatch();
    one.send({ type: "job_reject", job_id: id, reason: "no memory" });
    expect(await two.assigned(id)).toMatchObject({ attempt: 1 });
    expect(clock()).toBeLessThan(1_500);
    expect((await two.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[JB5] a job that is only ever rejected fails with no_eligible_worker", { timeout: 50_000 }, async () => {
    const one = await fullWorker(evm.socketUrl);
    const user = await owner(one);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    let seen = 0;
    const timer = setInterval(() => {
      for (; seen < one.frames.length; seen += 1) if (one.frames[seen]?.type === "job_assign") one.send({ type: "job_reject", job_id: id, reason: "never" });
    }, 20);
    const job = await evm.api.ended(id, 45_000);
    clearInterval(timer);
    expect(job).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" } });
  });
});
