import { describe, expect, test } from "vitest";
import { TestHub, commitInput } from "../support/worker-hub.ts";

describe("the claim", () => {
  test("[JB3] among free workers the least recently used is first, after the hub lost its memory too", async () => {
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
    for (const worker of [a, b]) await give(worker);
    await hub.evict();
    for (const worker of [c, a, b]) await give(worker);
  });
});

describe("PRIVATE", () => {
  const secret = (user: string) => ({ privacy_class: "PRIVATE", user_id: user });

  test("[JB8] a waiting one goes to a worker that is paired meanwhile, after the hub lost its memory too", async () => {
    const hub = new TestHub();
    const user = crypto.randomUUID();
    const busy = await hub.worker();
    await hub.pair(user, busy.key.publicKey);
    await hub.commit("cheap", secret(user));
    await busy.assigned();
    const id = await hub.commit("cheap", secret(user));
    const newcomer = await hub.worker();
    await hub.evict();
    const { body } = await hub.request("/v1/trust/create", { method: "POST", body: JSON.stringify({ user_id: user }) });
    await newcomer.quiet();
    const claim = { pairing_code: body.pairing_code, provider_pubkey: newcomer.key.publicKey };
    expect((await hub.request("/v1/trust/claim", { method: "POST", body: JSON.stringify(claim) })).status).toBe(200);
    expect(await newcomer.assigned()).toMatchObject({ job_id: id });
  });

  test("[JB8] the second delivery of a refused commit is refused again", async () => {
    const hub = new TestHub();
    const input = commitInput({ privacyClass: "PRIVATE", trustedKeys: [] });
    for (let delivery = 0; delivery < 2; delivery++) expect(await hub.stub.commit(input)).toEqual({ ok: false, reason: "no_trusted_worker", jobId: input.id });
  });
});

describe("commits", () => {
  test("[API5] two at once are one job, and one row; of two different ones at once one is refused", async () => {
    const hub = new TestHub();
    const key = { "idempotency-key": "k" };
    const answers = await Promise.all(Array.from({ length: 8 }, () => hub.post("cheap", {}, key)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await hub.sql("SELECT id FROM jobs")).toHaveLength(1);
    const different = await Promise.all([hub.post("cheap", {}, { "idempotency-key": "l" }), hub.post("fast", {}, { "idempotency-key": "l" })]);
    expect(different.map(({ status }) => status).toSorted()).toEqual([201, 409]);
    // In one turn, before the key of the first one is written.
    const idempotency = { key: "m", fingerprint: "f" };
    const inputs = [commitInput({ idempotency }), commitInput({ idempotency })];
    const together = await hub.inside((instance) => Promise.all(inputs.map((input) => instance.commit(input))));
    expect(together).toMatchObject(inputs.map(() => ({ ok: true, jobId: inputs[0]?.id })));
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

  test("[API9] [JB13] a request that leaves cancels the job only if no other request got the same job; a second delivery is no other request", async () => {
    const hub = new TestHub();
    const idempotency = { key: "k", fingerprint: "f" };
    const first = commitInput({ idempotency });
    const answer = await hub.stub.commit(first);
    const token = answer.ok ? (answer.cancelToken ?? "") : "";
    await hub.stub.commit({ ...first, again: true });
    await hub.stub.commit(commitInput({ idempotency }));
    const leaves = async (): Promise<unknown> => {
      await hub.stub.cancel(first.id, token, true);
      return (await hub.job(first.id)).status;
    };
    expect(await leaves()).toBe("pending");
    expect(await leaves()).toBe("failed");
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
