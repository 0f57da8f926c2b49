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

/** A row for each of these damages, by its id, and what is damaged in it. */
type Damaged = { id: string; name: string }[];

/** Runs jobs that end while D1 does not get their ends, and damages each row in one of these ways. */
async function damagedEnds(hub: TestHub, damages: Record<string, string>): Promise<Damaged> {
  await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
  const worker = await hub.worker();
  const damaged: Damaged = [];
  for (const name of Object.keys(damages)) {
    damaged.push({ name, id: await hub.commit() });
    await worker.complete(await worker.assigned(), OUTPUT);
  }
  worker.close();
  await hub.online(0);
  for (const { name, id } of damaged) await hub.sql(`UPDATE jobs SET ${damages[name]} WHERE id = '${id}'`);
  return damaged;
}

describe("a row of the hub that cannot be read does not kill the hub", () => {
  const ENDS = {
    "no result": "result = NULL",
    "a result that is no JSON": "result = '{'",
    "a status that is none": "status = 'done'",
    "a time that is none": "created_at = 'yesterday', ended_at = 'today'",
    "a revision that is none": "rev = 'x'",
  };
  test("[JB9] jobs: ends that cannot be read, in whatever way, are answered and recorded as worker_lost, and the others still reach D1", async () => {
    const hub = new TestHub();
    const errors = muteErrors();
    const damaged = await damagedEnds(hub, ENDS);
    await hub.abort();
    await isAlive(hub);
    expect(errors.events().filter((event) => event === "damaged_row")).toHaveLength(damaged.length);
    for (const { id, name } of damaged) {
      expect(await hub.job(id), name).toMatchObject({ id, status: "failed", result: { error: "worker_lost" }, receipt: null, completed_at: null });
      await hub.recorded(id, "failed");
    }
    await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "handed on");
  });

  test("[JB9] jobs: ends whose receipt is no JSON, something else or bytes keep their results", async () => {
    const hub = new TestHub();
    const damaged = await damagedEnds(hub, { "no JSON": "receipt = '{'", "something else": "receipt = '{}'", bytes: "receipt = x'ff00'" });
    await hub.abort();
    await isAlive(hub);
    for (const { id, name } of damaged) {
      expect(await hub.job(id), name).toMatchObject({ status: "completed", result: OUTPUT, receipt: null });
      await hub.recorded(id, "completed");
    }
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

  test("[WS4] keys: workers whose record has words for numbers, or bytes, are workers with a clean record", async () => {
    const hub = new TestHub();
    const damages = [
      "strikes = 'x', parks = 'x', parked_until = 'x', completed = 'x', users = 'x', failed = 'x', failed_at = 'x', last_used = 'x', last_seen = 'x'",
      "strikes = x'00', parks = x'00', parked_until = x'00', completed = x'00', users = x'00', failed = x'00', last_used = x'00'",
    ].map((damage) => ({ damage, key: newKey() }));
    for (const { key } of damages) (await hub.worker({ key, signed: true })).close();
    await hub.online(0);
    for (const { damage, key } of damages) await hub.sql(`UPDATE keys SET ${damage} WHERE key = '${key.publicKey}'`);
    await hub.evict();
    for (const { key } of damages) {
      const worker = await hub.worker({ key, signed: true });
      await hub.commit();
      await worker.complete(await worker.assigned());
      await hub.stub.wake();
      worker.close();
      await hub.online(0);
    }
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

  const PAYMENTS = [
    { key: "a phase of bytes", phase: "x'00'", expires: "1" },
    { key: "a phase of something else", phase: `'{"kind":"dance"}'`, expires: "1" },
    { key: "a phase that is no JSON", phase: "'{'", expires: "1" },
    { key: "a time that is none", phase: `'{"kind":"held"}'`, expires: "'x'" },
  ];
  test("[PY6] payments: those that cannot be read, in whatever way, are kept for the operator and logged", async () => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    for (const { key, phase, expires } of PAYMENTS) {
      await hub.sql(`INSERT INTO payments (key, digest, binding, amount, expires_at, job_id, doubts, phase, kind, updated_at)
        VALUES ('${key}', 'd', 'b', '1', ${expires}, 'job of ${key}', 0, ${phase}, 'held', 0)`);
    }
    const errors = muteErrors();
    await hub.evict();
    await isAlive(hub);
    expect(errors.events().filter((event) => event === "damaged_payment")).toHaveLength(PAYMENTS.length);
    await hub.stub.wake();
    expect(await hub.sql("SELECT key FROM payments ORDER BY key")).toEqual(PAYMENTS.map(({ key }) => ({ key })));
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
