import { afterEach, describe, expect, test, vi } from "vitest";
import { muteErrors } from "../support/errors.ts";
import { commitInput, TestHub, until } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";

afterEach(() => vi.restoreAllMocks());

const OUTPUT = { summary: "s" };

/** Checks that a hub works: it accepts a job, assigns it and shows how it ended. */
async function isAlive(hub: TestHub): Promise<void> {
  const worker = await hub.worker();
  const id = await hub.commit("fast", { user_id: "another" });
  const job = await worker.assigned();
  expect(job.job_id).toBe(id);
  await worker.complete(job, OUTPUT);
  expect(await hub.job(id)).toMatchObject({ status: "completed", result: OUTPUT });
}

/** Runs a job that ends while D1 does not get its end. */
async function endedAlone(hub: TestHub): Promise<string> {
  await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
  const worker = await hub.worker();
  const id = await hub.commit();
  await worker.complete(await worker.assigned(), OUTPUT);
  worker.close();
  await hub.online(0);
  return id;
}

describe("a row of the hub that cannot be read does not kill the hub", () => {
  test.for([
    ["no result", "result = NULL"],
    ["a result that is no JSON", "result = '{'"],
    ["a status that is none", "status = 'done'"],
    ["a time that is none", "created_at = 'yesterday', ended_at = 'today'"],
    ["a revision that is none", "rev = 'x'"],
  ])("[JB9] jobs: an end with %s is answered and recorded as worker_lost, and the others still reach D1", async ([, damage]) => {
    const hub = new TestHub();
    const id = await endedAlone(hub);
    const errors = muteErrors();
    await hub.sql(`UPDATE jobs SET ${damage} WHERE id = '${id}'`);
    await hub.abort();
    await isAlive(hub);
    expect(errors.events()).toContain("damaged_row");
    expect(await hub.job(id)).toMatchObject({ id, status: "failed", result: { error: "worker_lost" }, receipt: null, completed_at: null });
    await hub.recorded(id, "failed");
    await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "handed on");
  });

  test.for([
    ["no JSON", "'{'"],
    ["something else", "'{}'"],
    ["bytes", "x'ff00'"],
  ])("[JB9] jobs: an end whose receipt is %s keeps its result", async ([, receipt]) => {
    const hub = new TestHub();
    const id = await endedAlone(hub);
    await hub.sql(`UPDATE jobs SET receipt = ${receipt} WHERE id = '${id}'`);
    await hub.abort();
    await isAlive(hub);
    expect(await hub.job(id)).toMatchObject({ status: "completed", result: OUTPUT, receipt: null });
    await hub.recorded(id, "completed");
  });

  test("[JB9] jobs: a live job with every column damaged ends, and the others go on", async () => {
    const hub = new TestHub();
    const [damaged, sound] = [await hub.commit(), await hub.commit()];
    muteErrors();
    await hub.sql(
      `UPDATE jobs SET job_type = 1, policy = x'00', payload_bytes = 'x', created_at = 'x', rev = 'x', holders = '[', snapshot = '[]' WHERE id = '${damaged}'`,
    );
    await hub.evict();
    expect((await (await hub.worker()).assigned()).job_id).toBe(sound);
    expect(await hub.job(damaged)).toMatchObject({ status: "failed", result: { error: "worker_lost" } });
  });

  test("[API5] idempotency: the other keys still give their jobs", async () => {
    const hub = new TestHub();
    const keyed = (key: string) => hub.post("cheap", {}, { "idempotency-key": key });
    const { body } = await keyed("sound");
    await keyed("damaged");
    await hub.sql("UPDATE idempotency SET fingerprint = x'00', created_at = 'x' WHERE key = 'damaged'");
    await hub.evict();
    expect((await keyed("sound")).body).toEqual(body);
    expect([409, 201]).toContain((await keyed("damaged")).status);
    await hub.stub.wake();
    await hub.worker();
  });

  test.for([
    [
      "words for numbers",
      "strikes = 'x', parks = 'x', parked_until = 'x', completed = 'x', users = 'x', failed = 'x', failed_at = 'x', last_used = 'x', last_seen = 'x'",
    ],
    ["bytes", "strikes = x'00', parks = x'00', parked_until = x'00', completed = x'00', users = x'00', failed = x'00', last_used = x'00'"],
  ])("[WS4] keys: a worker whose record is %s is a worker with a clean record", async ([, damage]) => {
    const hub = new TestHub();
    const key = newKey();
    const before = await hub.worker({ key, signed: true });
    before.close();
    await hub.online(0);
    await hub.sql(`UPDATE keys SET ${damage}`);
    await hub.evict();
    const worker = await hub.worker({ key, signed: true });
    await hub.commit();
    await worker.complete(await worker.assigned());
    await hub.stub.wake();
    worker.close();
    await hub.online(0);
    await isAlive(hub);
  });

  test("[WS5] keys: a key that may have authenticated must authenticate again", async () => {
    const hub = new TestHub();
    const key = newKey();
    await hub.worker({ key, signed: true });
    await hub.sql("UPDATE keys SET authenticated_at = 'x'");
    await hub.evict("close");
    const plain = await hub.connect(key);
    plain.send(plain.registration());
    expect(await plain.next("register_ack")).toMatchObject({ status: "error", error: "auth_required" });
    await hub.worker({ key, signed: true });
  });

  test.for([
    ["is lost", "DELETE FROM version"],
    ["is no number", "UPDATE version SET version = 'x'"],
    ["is a newer hub's", "UPDATE version SET version = 99"],
    ["is an older hub's", "UPDATE version SET version = 0"],
    ["is there twice", "INSERT INTO version SELECT version FROM version"],
  ])("[JB9] version: a hub whose version %s keeps its jobs", async ([, damage]) => {
    const hub = new TestHub();
    const id = await hub.commit();
    await hub.sql(damage ?? "");
    for (let life = 0; life < 2; life++) {
      await hub.evict();
      await hub.stub.workersOnline();
    }
    expect((await (await hub.worker()).assigned()).job_id).toBe(id);
  });

  test("[JB9] version: a hub that was rolled back does not change the version of the newer one", async () => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    await hub.sql("UPDATE version SET version = 99");
    await hub.evict();
    await hub.stub.workersOnline();
    expect(await hub.sql("SELECT version FROM version")).toEqual([{ version: 99 }]);
  });

  test.for([
    ["a phase that is no JSON", "'{'", "1"],
    ["a phase of something else", `'{"kind":"dance"}'`, "1"],
    ["a time that is none", `'{"kind":"held"}'`, "'x'"],
    ["a phase of bytes", "x'00'", "1"],
  ])("[PY6] payments: %s is kept for the operator and logged", async ([, phase, expires]) => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    await hub.sql(`INSERT INTO payments (key, digest, binding, amount, expires_at, job_id, doubts, phase, kind, updated_at)
      VALUES ('k', 'd', 'b', '1', ${expires}, 'job', 0, ${phase}, 'held', 0)`);
    const errors = muteErrors();
    await hub.evict();
    await isAlive(hub);
    expect(errors.events()).toContain("damaged_payment");
    await hub.stub.wake();
    expect(await hub.sql("SELECT key FROM payments")).toEqual([{ key: "k" }]);
  });

  test("[PY10] payments: an answer of the facilitator that cannot be read fails no poll", async () => {
    const hub = new TestHub();
    const id = await hub.commit();
    await hub.sql(`INSERT INTO payments (key, digest, binding, amount, expires_at, job_id, doubts, phase, kind, updated_at, response)
      VALUES ('k', 'd', 'b', '1', 1, '${id}', 0, '{"kind":"spent","transaction":"t"}', 'spent', 0, '{')`);
    expect(await hub.stub.settlement(id)).toContain('"success":true');
  });

  test.for([
    ["held", '{"kind":"held"}', { kind: "void", phase: '{"kind":"void","reason":"unused"}' }],
    ["settled", '{"kind":"settled","transaction":"0x1"}', { kind: "credit", phase: '{"kind":"credit","transaction":"0x1"}' }],
  ] as const)("[PY9] payments: one that is %s for a job that cannot be read is closed with that job", async ([kind, phase, after]) => {
    const hub = new TestHub();
    const input = commitInput();
    await hub.stub.commit(input);
    await hub.sql(`INSERT INTO payments (key, digest, binding, payer, asset, amount, expires_at, job_id, doubts, phase, kind, updated_at)
      VALUES ('k', 'd', 'b', '0xaa', 'a', '1', ${Date.now() + 300_000}, '${input.id}', 0, '${phase}', '${kind}', 0)`);
    await hub.sql(`UPDATE jobs SET snapshot = '[]' WHERE id = '${input.id}'`);
    muteErrors();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    await hub.evict();
    await hub.stub.workersOnline();
    await until(async () => (await hub.sql("SELECT kind FROM payments WHERE kind <> 'held' AND kind <> 'settled'")).length === 1, "closed");
    expect(await hub.sql("SELECT kind, phase FROM payments")).toEqual([after]);
  });
});
