import { LIMITS } from "../../../src/protocol/limits.ts";
import { describe, expect, test } from "vitest";
import { TestHub, commitInput } from "../support/worker-hub.ts";

const LLM = { job_type: "LLM_INFER" };

describe("the claim", () => {
  test("[JB4] [SPEC] no worker for 30 s: failed with no_eligible_worker, not earlier", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    for (let tick = 0; tick < 14; tick++) expect(await hub.pass(2_000)).toBe(true);
    await hub.pass(1_999);
    expect((await hub.job(id)).status).toBe("pending");
    await hub.pass(1);
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" }, receipt: null, completed_at: null });
    expect(await hub.recorded(id, "failed")).toMatchObject({ completed_at: null, result: '{"error":"no_eligible_worker"}' });
  });

  test("[JB4] a requeue starts a new claim window; [JB5] without a worker the job ends with the last cause", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    await hub.pass(29_000);
    const worker = await hub.worker();
    await worker.assigned();
    worker.send({ type: "job_failed", job_id: id, attempt: 1, error: "e", retryable: true });
    await worker.quiet();
    worker.close();
    await hub.online(0);
    await hub.pass(29_999);
    expect((await hub.job(id)).status).toBe("pending");
    await hub.pass(1);
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "worker_error" } });
  });

  test("[JB4] the only worker gets its failed job again at a tick, and after three attempts it fails with execution_timeout", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.plainWorker();
    const id = await hub.commit();
    for (let attempt = 1; attempt <= 3; attempt++) {
      expect(await worker.assigned()).toMatchObject({ job_id: id, attempt });
      hub.skip(30_000);
      await worker.quiet();
      await hub.pass(0);
      expect(await worker.next("job_cancel")).toMatchObject({ attempt });
      await worker.quiet();
      await hub.pass(2_000);
    }
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "execution_timeout" } });
  });

  test.for([false, true])("[JB3] among free workers the least recently used is first; memory lost meanwhile: %s", async (forget) => {
    const hub = new TestHub();
    hub.skip(0);
    const workers = [await hub.worker(), await hub.worker(), await hub.worker()];
    const [a, b, c] = workers;
    const give = async (to: typeof a) => {
      hub.skip(1_000);
      const id = await hub.commit();
      const job = await to?.assigned();
      expect(job?.job_id).toBe(id);
      if (job) await to?.complete(job);
    };
    for (const worker of [a, b, c]) await give(worker);
    if (forget) await hub.evict();
    for (const worker of [a, b, c]) await give(worker);
  });
});

describe("PRIVATE", () => {
  const secret = (user: string) => ({ privacy_class: "PRIVATE", user_id: user });

  test("[JB8] without a paired worker online: 422, stored as failed, and it can be polled", async () => {
    const hub = new TestHub();
    const stranger = await hub.worker();
    const away = crypto.randomUUID();
    await hub.pair(away, "ab".repeat(32));
    for (const user of [crypto.randomUUID(), away]) {
      const { status, body } = await hub.post("cheap", secret(user));
      expect([status, body]).toEqual([422, { error: "no_trusted_worker", job_id: expect.any(String) }]);
      const id = String(body.job_id);
      const failed = { status: "failed", result: { error: "no_trusted_worker" }, receipt: null, completed_at: null };
      expect(await hub.job(id)).toMatchObject(failed);
      await hub.recorded(id, "failed");
      expect(await hub.job(id)).toMatchObject(failed);
    }
    await stranger.quiet();
  });

  test("[JB8] a paired worker that cannot run it does not count, and a draining one does not count", async () => {
    const hub = new TestHub();
    const user = crypto.randomUUID();
    const worker = await hub.worker({ capabilities: ["TASK"] });
    await hub.pair(user, worker.key.publicKey);
    expect((await hub.post("cheap", { ...LLM, ...secret(user) })).status).toBe(422);
    await hub.commit("cheap", secret(user));
    await worker.assigned();
    worker.send({ type: "drain" });
    await worker.quiet();
    expect((await hub.post("cheap", secret(user))).status).toBe(422);
  });

  test("[JB8] connected but busy: 201, and it waits for that worker even if others are free", async () => {
    const hub = new TestHub();
    const user = crypto.randomUUID();
    const paired = await hub.worker();
    await hub.pair(user, paired.key.publicKey);
    await hub.commit();
    const busy = await paired.assigned();
    const free = await hub.worker();
    const id = await hub.commit("cheap", secret(user));
    await free.quiet();
    await paired.complete(busy);
    expect(await paired.assigned()).toMatchObject({ job_id: id, privacy_class: "PRIVATE" });
  });

  test("[JB8] a waiting one goes to a worker that is paired meanwhile, even if the hub lost its memory", async () => {
    for (const forget of [false, true]) {
      const hub = new TestHub();
      const user = crypto.randomUUID();
      const busy = await hub.worker();
      await hub.pair(user, busy.key.publicKey);
      await hub.commit("cheap", secret(user));
      await busy.assigned();
      const id = await hub.commit("cheap", secret(user));
      const newcomer = await hub.worker();
      if (forget) await hub.evict();
      const { body } = await hub.request("/v1/trust/create", { method: "POST", body: JSON.stringify({ user_id: user }) });
      await newcomer.quiet();
      const claim = { pairing_code: body.pairing_code, provider_pubkey: newcomer.key.publicKey };
      expect((await hub.request("/v1/trust/claim", { method: "POST", body: JSON.stringify(claim) })).status).toBe(200);
      expect(await newcomer.assigned()).toMatchObject({ job_id: id });
    }
  });

  test("[JB8] of several paired workers the least recently used one gets it; after a failure only another paired one", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const user = crypto.randomUUID();
    const [one, two, stranger] = [await hub.worker(), await hub.worker(), await hub.worker()];
    for (const { key } of [one, two]) await hub.pair(user, key.publicKey);
    const id = await hub.commit("cheap", secret(user));
    await one.assigned();
    one.send({ type: "job_failed", job_id: id, attempt: 1, error: "e", retryable: true });
    expect(await two.assigned()).toMatchObject({ job_id: id, attempt: 2 });
    two.send({ type: "job_failed", job_id: id, attempt: 2, error: "e", retryable: true });
    await two.quiet();
    await hub.pass(2_000);
    expect(await one.assigned()).toMatchObject({ job_id: id, attempt: 3 });
    await stranger.quiet();
  });

  test("[JB8] the second delivery of a refused commit is refused again", async () => {
    const hub = new TestHub();
    const input = commitInput({ privacyClass: "PRIVATE", trustedKeys: [] });
    for (let delivery = 0; delivery < 2; delivery++) expect(await hub.stub.commit(input)).toEqual({ ok: false, reason: "no_trusted_worker", jobId: input.id });
  });
});

describe("limits of the queue", () => {
  test("[LM1] the 1,001st waiting job of one user is queue_full; another user's and one that is claimed are not", async () => {
    const hub = new TestHub();
    const input = commitInput();
    await Promise.all(Array.from({ length: LIMITS.queuedJobsPerUser }, () => hub.stub.commit({ ...input, id: crypto.randomUUID() })));
    const full = await hub.post("cheap");
    expect([full.status, full.body.error, full.headers.get("retry-after")]).toEqual([503, "queue_full", "5"]);
    await hub.commit("cheap", { user_id: "other" });
    // One job leaves the queue, so there is room for one more.
    await hub.worker();
    await hub.commit();
    expect((await hub.post("cheap")).status).toBe(503);
  });

  test("[LM1] 28 of 32 MiB of waiting payload are queue_full for their pool, to the byte, and the rest is for the other one", async () => {
    const hub = new TestHub();
    const payload = (bytes: number) => `{"x":"${"x".repeat(bytes - 8)}"}`;
    const part = LIMITS.queuedPayloadBytes / 32;
    const big = payload(part);
    for (let i = 0; i < 27; i++) expect((await hub.stub.commit(commitInput({ payload: big }))).ok).toBe(true);
    expect(await hub.stub.commit(commitInput({ payload: payload(part + 1) }))).toEqual({ ok: false, reason: "queue_full" });
    expect((await hub.stub.commit(commitInput({ payload: big }))).ok).toBe(true);
    expect(await hub.stub.commit(commitInput())).toEqual({ ok: false, reason: "queue_full" });
    const refused = commitInput();
    await hub.stub.commit(refused);
    expect(await hub.stub.job(refused.id, 0)).toBeNull();
    const llm = () => hub.stub.commit(commitInput({ jobType: "LLM_INFER", payload: big }));
    for (let i = 0; i < 4; i++) expect((await llm()).ok).toBe(true);
    expect(await llm()).toEqual({ ok: false, reason: "queue_full" });
  });
});

describe("commits", () => {
  test("[API5] the same Idempotency-Key: the same job, one run; other fields or endpoint: 409; another user: another job", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const key = { "idempotency-key": "k" };
    const first = await hub.post("cheap", {}, key);
    expect(first.status).toBe(201);
    for (const forget of [false, true]) {
      if (forget) await hub.evict();
      const again = await hub.post("cheap", {}, key);
      expect([again.status, again.text]).toEqual([201, first.text]);
    }
    await worker.assigned();
    expect(await hub.post("fast", {}, key)).toMatchObject({ status: 409, body: { error: "idempotency_key_reused" } });
    expect((await hub.post("cheap", { payload: { task_type: "summarize", input: "other" } }, key)).status).toBe(409);
    const other = await hub.post("cheap", { user_id: "other" }, key);
    expect(other.status).toBe(201);
    expect(other.text).not.toBe(first.text);
  });

  test("[API5] two at once are one job", async () => {
    const hub = new TestHub();
    const key = { "idempotency-key": "k" };
    const answers = await Promise.all(Array.from({ length: 8 }, () => hub.post("cheap", {}, key)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await hub.sql("SELECT id FROM jobs")).toHaveLength(1);
    const different = await Promise.all([hub.post("cheap", {}, { "idempotency-key": "l" }), hub.post("fast", {}, { "idempotency-key": "l" })]);
    expect(different.map(({ status }) => status).toSorted()).toEqual([201, 409]);
  });

  test("[API5] a key is kept for 24 h, whether the job has ended or not; and only a 201 is stored", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const key = { "idempotency-key": "k" };
    const user = crypto.randomUUID();
    const fields = { user_id: user, privacy_class: "PRIVATE" };
    expect((await hub.post("cheap", fields, key)).status).toBe(422);
    const worker = await hub.worker();
    await hub.pair(user, worker.key.publicKey);
    const first = await hub.post("cheap", fields, key);
    expect(first.status).toBe(201);
    await worker.complete(await worker.assigned());
    worker.close();
    hub.skip(24 * 3_600_000 - 1);
    await hub.stub.wake();
    expect((await hub.post("cheap", fields, key)).text).toBe(first.text);
    hub.skip(2);
    expect((await hub.post("cheap", fields, key)).status).toBe(422);
  });

  test("[JB9] the second delivery of one commit is the same job", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    for (const forget of [false, false, true]) {
      if (forget) await hub.evict();
      expect(await hub.stub.commit(input)).toMatchObject({ ok: true, jobId: input.id, job: null });
    }
    const job = await worker.assigned();
    await worker.quiet();
    await worker.complete(job);
    expect((await hub.stub.commit(input)).ok).toBe(true);
    await worker.quiet();
  });

  test("[API6] wait answers as soon as the job has ended; Prefer: wait on the commit does so in one request", async () => {
    const hub = new TestHub();
    const id = await hub.commit();
    const held = hub.request(`/v1/jobs/${id}?wait=25`);
    const worker = await hub.worker();
    const job = await worker.assigned();
    await worker.complete(job);
    expect((await held).body).toMatchObject({ id, status: "completed" });
    const one = hub.post("cheap", {}, { prefer: "wait=25" });
    const second = await worker.assigned();
    await worker.complete(second, "text");
    const { status, body, headers } = await one;
    expect([status, headers.get("preference-applied")]).toEqual([201, "wait=25"]);
    expect(body).toMatchObject({ job_id: second.job_id, job: { id: second.job_id, status: "completed", result: { output: "text" } } });
  });

  test("[API6] many requests wait for one job: all are answered at its end, and at most 2,000 are held", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    await worker.quiet();
    const held = Array.from({ length: 2_000 }, () => hub.stub.job(id, 25));
    expect(await hub.stub.job(id, 25)).toContain('"running"');
    await worker.complete(job);
    const answers = await Promise.all(held);
    expect(answers.every((text) => text?.includes('"completed"'))).toBe(true);
  });

  test("[SPEC] workers_online counts registered workers, each key once, until they leave", async () => {
    const hub = new TestHub();
    await hub.connect();
    expect(await hub.workersOnline()).toBe(0);
    const one = await hub.worker();
    await hub.worker();
    await hub.worker({ key: one.key, signed: true });
    expect(await hub.workersOnline()).toBe(2);
    await hub.evict();
    expect(await hub.workersOnline()).toBe(2);
    await hub.evict("close");
    expect(await hub.workersOnline()).toBe(0);
  });
});
