import { TIMING } from "../../../src/protocol/times.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { afterEach, describe, expect, test, vi } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { authorization, encode, evmOffer } from "../../support/payments.ts";
import { muteErrors } from "../support/errors.ts";
import { EventReader, inShort } from "../support/event-reader.ts";
import { TestHub, commitInput, until } from "../support/worker-hub.ts";

const OUTPUT = { summary: "s" };

/** Makes every write of this kind to the hub's job table fail, like a full disk. */
function breakJournal(hub: TestHub, what: "INSERT" | "UPDATE", when = "1"): Promise<unknown> {
  return hub.sql(`CREATE TRIGGER broken BEFORE ${what} ON jobs WHEN ${when} BEGIN SELECT RAISE(ABORT, 'disk'); END`);
}

const healJournal = (hub: TestHub): Promise<unknown> => hub.sql("DROP TRIGGER broken");

afterEach(() => vi.restoreAllMocks());

test("[API1] [JB8] a refused commit that cannot be stored is 503, not 500", async () => {
  const hub = new TestHub();
  muteErrors();
  await hub.stub.workersOnline();
  await breakJournal(hub, "INSERT");
  expect(await hub.post("cheap", { privacy_class: "PRIVATE" })).toMatchObject({ status: 503, body: { error: "overloaded" } });
  await healJournal(hub);
  expect((await hub.post("cheap", { privacy_class: "PRIVATE" })).status).toBe(422);
});

test("[API1] while commits cannot be stored the health check fails too, until one works or for a while", async () => {
  const hub = new TestHub();
  muteErrors();
  hub.skip(0);
  const health = async () => (await hub.request("/v1/health")).status;
  expect(await health()).toBe(200);
  await breakJournal(hub, "INSERT");
  expect((await hub.post("cheap")).status).toBe(503);
  expect(await hub.request("/v1/health")).toMatchObject({ status: 503, body: { error: "overloaded" } });
  hub.skip(TUNING.commitFailed + 1_000);
  expect(await health()).toBe(200);
  expect((await hub.post("cheap")).status).toBe(503);
  expect(await health()).toBe(503);
  await healJournal(hub);
  await until(async () => (await hub.post("cheap")).status === 201, "stored");
  expect(await health()).toBe(200);
});

test("[API1] [PY6] requests that wait in vain for one payment, which anyone can send, do not make the health check fail", async () => {
  const { network, payTo, token } = evmOffer();
  const facilitator = { EVM_FACILITATOR: "http://facilitator.test", EVM_PAY_TO: payTo, EVM_USDC: token.address };
  const hub = new TestHub({ TESTNET_MODE: "false", RATE_LIMITS: "off", ...facilitator });
  muteErrors();
  const answer = Promise.withResolvers<void>();
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
    await answer.promise;
    return Response.json({ isValid: false, invalidReason: "no" });
  });
  const accepted = { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} };
  const headers = { "payment-signature": encode({ x402Version: 2, accepted, payload: authorization(Date.now()) }) };
  const all = Array.from({ length: LIMITS.waitersPerKey + 2 }, () => hub.post("fast", {}, headers));
  expect(await Promise.race(all)).toMatchObject({ status: 503, body: { error: "overloaded" } });
  expect((await hub.request("/v1/health")).status).toBe(200);
  answer.resolve();
  await Promise.all(all);
});

describe("loss of the hub's memory", () => {
  test("[JB9] in the middle of a job: the socket is kept, the job goes on, and its result is accepted", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned({ acks: false });
    await hub.evict();
    expect((await hub.job(id)).status).toBe("assigned");
    worker.send({ type: "job_ack", job_id: id, attempt: 1 });
    await worker.quiet();
    await hub.evict();
    expect((await hub.job(id)).status).toBe("running");
    await worker.quiet();
    expect((await worker.complete(job)).status).toBe("accepted");
    await hub.evict();
    expect((await hub.job(id)).status).toBe("completed");
  });

  test("[JB9] a waiting job is still there, with its claim window and its place in the queue", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const [cheap, fast] = [await hub.commit("cheap"), await hub.commit("fast")];
    await hub.pass(20_000);
    await hub.evict();
    const worker = await hub.worker();
    const job = await worker.assigned();
    expect(job.job_id).toBe(fast);
    await hub.evict();
    // No alarm is so late that the hub was down.
    for (let ms = 0; ms < 10_000; ms += TUNING.outage / 2) await hub.pass(TUNING.outage / 2);
    expect(await hub.job(cheap)).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" } });
  });

  test("[WS9] the time for the acknowledgement still ends", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned({ acks: false });
    await hub.evict();
    await hub.pass(0);
    await hub.pass(5_000);
    expect(await worker.next("job_cancel")).toMatchObject({ job_id: id, reason: "ack_timeout" });
  });

  test("[JB4] with the sockets: the lease has the grace time, then the job waits again", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned({ acks: false });
    await hub.evict("close");
    expect(await worker.closed()).toBe(1006);
    expect((await hub.job(id)).status).toBe("assigned");
    expect(await hub.workersOnline()).toBe(0);
    await hub.pass(15_000);
    expect((await hub.job(id)).status).toBe("pending");
  });

  test("[JB9] by a crash: every commit that was answered is there, and no other is stored in part", async () => {
    const hub = new TestHub();
    const inputs = Array.from({ length: 30 }, () => commitInput());
    const commits = inputs.map((input) => hub.stub.commit(input));
    await Promise.race(commits);
    await hub.abort();
    const answers = await Promise.allSettled(commits);
    for (const [i, { status }] of answers.entries()) {
      const job = await hub.stub.job(inputs[i]?.id ?? "", 0);
      if (status === "fulfilled") expect(job).toContain('"pending"');
    }
    expect(answers.some(({ status }) => status === "fulfilled")).toBe(true);
    const worker = await hub.worker();
    await worker.assigned();
  });

  test("[WS7] a worker that reconnects on a new socket after a crash is one worker", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.abort();
    const again = await hub.worker({ key: worker.key });
    expect(await hub.workersOnline()).toBe(1);
    await hub.commit();
    await again.assigned();
  });
});

describe("the alarm", () => {
  test("[JB2] [WS6] is set while anything has a deadline, after it ran and after the memory was lost", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const now = Date.now();
    const socket = await hub.connect();
    expect(await hub.alarmAt()).toBe(now + 10_000);
    await hub.commit("cheap", { job_type: "LLM_INFER" });
    await hub.recorded(await hub.commit(), "pending");
    expect(await hub.alarmAt()).toBe(now + 2_000);
    await hub.pass(2_000);
    expect(await hub.alarmAt()).toBe(now + 4_000);
    await hub.evict();
    await hub.inside((_, state) => state.storage.deleteAlarm());
    await hub.evict();
    expect(await hub.alarmAt()).toBeLessThanOrEqual(now + 4_000);
    await socket.register({ capabilities: [] });
    for (let tick = 0; tick < 14; tick++) await hub.pass(2_000);
    await socket.quiet();
    await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "handed on");
    await hub.pass(2_000);
    const sweep = (await hub.alarmAt()) ?? 0;
    expect(sweep).toBeGreaterThan(Date.now());
    expect(sweep).toBeLessThanOrEqual(Date.now() + 30_000);
    // Nothing is left to do: the alarm rings once more and then never again.
    socket.close();
    await hub.online(0);
    await hub.pass(30_000);
    expect(await hub.pass(0)).toBe(false);
  });

  test("[JB9] does not throw when the journal or D1 fails, nor when the clock goes back", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    await breakJournal(hub, "UPDATE");
    const errors = muteErrors();
    expect(await hub.pass(30_000)).toBe(true);
    expect(errors.events()).toContain("journal_failed");
    // What is due would be due again at once.
    expect(await hub.alarmAt()).toBeGreaterThanOrEqual(Date.now() + TUNING.journalPause);
    await healJournal(hub);
    hub.skip(-3_600_000);
    expect(await hub.pass(0)).toBe(true);
    hub.skip(3_600_000);
    await until(async () => {
      await hub.pass(1_000);
      return (await hub.job(id)).status !== "assigned";
    }, "requeued");
  });

  test("[JB9] that fails in the middle is logged and set again", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    const errors = muteErrors();
    await hub.inside((inside) => {
      // The alarm handler reads the clock first.
      vi.spyOn(Date, "now").mockImplementationOnce(() => {
        throw new Error("no clock");
      });
      return inside.alarm();
    });
    expect(errors.events()).toContain("alarm_failed");
    expect(await hub.alarmAt()).not.toBeNull();
    for (let tick = 0; tick < 15; tick++) await hub.pass(2_000);
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" } });
  });

  test("[JB4] is called by the platform itself", async () => {
    const hub = new TestHub();
    hub.skip(-29_800);
    const id = await hub.commit();
    hub.runClock();
    expect((await hub.request(`/v1/jobs/${id}?wait=10`)).body).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" } });
  });

  test("[JB2] does not wait for a slow D1", async () => {
    const hub = new TestHub();
    hub.skip(0);
    let asked = 0;
    await hub.breakD1({
      batch: () => {
        asked++;
        return new Promise(() => {});
      },
    });
    const id = await hub.commit();
    for (let tick = 0; tick < 15; tick++) expect(await hub.pass(2_000)).toBe(true);
    expect(asked).toBe(1);
    expect(await hub.job(id)).toMatchObject({ status: "failed" });
  });
});

describe("the hub's own storage", () => {
  test("[JB9] a commit that cannot be written gets no 201, leaves nothing, and reaches no worker", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const errors = muteErrors();
    await breakJournal(hub, "INSERT");
    const input = commitInput({ idempotency: { key: "k", fingerprint: "f" } });
    expect(await hub.stub.commit(input)).toEqual({ ok: false, reason: "overloaded" });
    const { status, body } = await hub.post("cheap");
    expect(status).toBe(503);
    expect(body).toEqual({ error: "overloaded", request_id: expect.any(String) });
    await worker.quiet();
    await healJournal(hub);
    expect(await hub.stub.job(input.id, 0)).toBeNull();
    expect(await hub.sql("SELECT * FROM idempotency")).toEqual([]);
    expect(await hub.stub.commit(input)).toMatchObject({ ok: true, jobId: input.id });
    expect((await worker.assigned()).job_id).toBe(input.id);
    expect(errors.events()).toContain("journal_failed");
  });

  test("[WS10] [RC5] a result that cannot be written is not acknowledged and not shown; its worker must reconnect, and it is accepted when it comes again", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned({ acks: false });
    muteErrors();
    await breakJournal(hub, "UPDATE", "new.ended_at IS NOT NULL");
    const frame = worker.completion(job, OUTPUT);
    worker.send(frame);
    expect(await worker.closed()).toBe(1012);
    expect(worker.texts.some((text) => text.includes("job_complete_ack"))).toBe(false);
    expect(await hub.job(id)).toMatchObject({ status: "assigned", result: null, receipt: null });
    await healJournal(hub);
    const again = await hub.worker({ key: worker.key, resume: [{ job_id: id, attempt: job.attempt }] });
    again.send(frame);
    expect((await again.next("job_complete_ack")).status).toBe("accepted");
    expect(await hub.job(id)).toMatchObject({ status: "completed", result: OUTPUT });
  });

  test("[WS9] [WS10] a job_ack that cannot be written does not cost the lease: its worker must reconnect, and to list the job is to acknowledge it", async () => {
    const hub = new TestHub();
    const [worker, other] = [await hub.worker(), await hub.connect()];
    const id = await hub.commit("cheap", { job_type: "LLM_INFER" });
    const { attempt } = await worker.assigned({ acks: false });
    muteErrors();
    await breakJournal(hub, "UPDATE");
    worker.send({ type: "job_ack", job_id: id, attempt });
    expect(await worker.closed()).toBe(1012);
    await healJournal(hub);
    const again = await hub.worker({ key: worker.key, resume: [{ job_id: id, attempt }] });
    await hub.pass(TIMING.ack + 1_000);
    await again.quiet();
    expect(await hub.job(id)).toMatchObject({ status: "running" });
    // Who sent nothing stays connected.
    await other.register({ capabilities: [] });
  });

  test("[JB9] a registration that cannot be written is closed with 1012 after a pause; the worker that reconnects gets the job", async () => {
    const hub = new TestHub();
    const id = await hub.commit();
    const errors = muteErrors();
    await breakJournal(hub, "UPDATE");
    const worker = await hub.connect();
    worker.send(worker.registration());
    await until(async () => errors.events().includes("journal_failed"), "failed");
    for (let turn = 0; turn < 50; turn++) await hub.stub.workersOnline();
    expect(errors.events().filter((event) => event === "journal_failed").length).toBeLessThanOrEqual(3);
    expect(worker.texts).toHaveLength(1);
    expect(await worker.closed()).toBe(1012);
    await healJournal(hub);
    expect((await (await hub.worker()).assigned()).job_id).toBe(id);
  });

  test("[WS4] a registration whose key cannot be stored is closed with 1012, so that the worker reconnects", async () => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    const errors = muteErrors();
    await hub.sql("CREATE TRIGGER broken BEFORE INSERT ON keys BEGIN SELECT RAISE(ABORT, 'disk'); END");
    const worker = await hub.connect();
    worker.send(worker.registration({ signed: true }));
    expect(await worker.closed()).toBe(1012);
    expect(errors.events()).toContain("message_failed");
    await healJournal(hub);
    await hub.worker();
    expect(await hub.stub.workersOnline()).toBe(1);
  });

  test("[JB9] a hub of the first version takes the missing steps of its journal, and keeps its jobs", async () => {
    const hub = new TestHub();
    const id = await hub.commit();
    await hub.sql("ALTER TABLE keys DROP COLUMN last_used");
    await hub.sql("ALTER TABLE jobs DROP COLUMN task_type");
    await hub.sql("DROP INDEX payments_uncopied");
    for (const column of ["asset", "rev", "copied_rev"]) await hub.sql(`ALTER TABLE payments DROP COLUMN ${column}`);
    await hub.sql("DROP TABLE version");
    await hub.evict();
    expect((await (await hub.worker()).assigned()).job_id).toBe(id);
    const fresh = new TestHub();
    await fresh.stub.workersOnline();
    expect(await hub.sql("SELECT version FROM version")).toEqual(await fresh.sql("SELECT version FROM version"));
  });

  test("[JB9] [WS10] if an end cannot be told, the acknowledgement, the wait, the alarm and the stream still happen", async () => {
    const hub = new TestHub();
    const id = await hub.commit();
    // A number that is no date, so the end can be stored but not shown.
    await hub.sql("UPDATE jobs SET created_at = 9000000000000000");
    await hub.evict();
    const worker = await hub.worker();
    const job = await worker.assigned({ acks: false });
    const errors = muteErrors();
    const waiting = hub.request(`/v1/jobs/${id}?wait=20`);
    const stream = new EventReader(await hub.fetch(new Request(`http://hub.test/v1/jobs/${id}/events`)));
    expect((await worker.complete(job)).status).toBe("accepted");
    await waiting;
    expect((await stream.rest()).map(inShort)).toEqual(["status assigned 1"]);
    expect(errors.events()).toContain("end_unread");
    expect(await hub.alarmAt()).not.toBeNull();
    await hub.commit();
    await worker.assigned();
  });

  test("[JB9] a job that cannot be read when it is assigned closes the socket of its worker, and affects no other", async () => {
    const hub = new TestHub();
    const [first, second] = [await hub.commit("fast"), await hub.commit("fast")];
    // Both jobs wait in a hub that lost its memory, so both payloads are read when they are sent. The first one cannot be read.
    await hub.evict();
    await hub.sql(`UPDATE jobs SET payload = x'ff' WHERE id = '${first}'`);
    const errors = muteErrors();
    const broken = await hub.connect();
    await hub.inside((_, state) => {
      const exec = state.storage.sql.exec.bind(state.storage.sql);
      vi.spyOn(state.storage.sql, "exec").mockImplementation((query: string, ...values: unknown[]) => {
        if (query.startsWith("SELECT job_type") && values[0] === first) throw new Error("disk I/O error");
        return exec(query, ...values);
      });
    });
    broken.send(broken.registration());
    await until(async () => errors.events().includes("delivery_failed"), "failed");
    expect((await broken.next("register_ack")).status).toBe("ok");
    expect(await broken.closed()).toBe(1012);
    expect((await (await hub.worker()).assigned()).job_id).toBe(second);
  });

  const DAMAGES = {
    "a snapshot that is no JSON": "snapshot = '{'",
    "no snapshot": "snapshot = NULL",
    "a snapshot of something else": `snapshot = '{"attempts":"x"}'`,
    "an unknown type": "job_type = 'DANCE'",
    "a time that is none": "created_at = 'yesterday'",
  };
  test("[JB9] rows that cannot be read, in whatever way, do not stop the hub: those jobs fail, the others go on", async () => {
    const hub = new TestHub();
    const damaged = await Promise.all(Object.entries(DAMAGES).map(async ([name, damage]) => ({ name, damage, id: await hub.commit() })));
    const sound = await hub.commit();
    const errors = muteErrors();
    for (const { damage, id } of damaged) await hub.sql(`UPDATE jobs SET ${damage} WHERE id = '${id}'`);
    await hub.evict();
    const worker = await hub.worker();
    expect((await worker.assigned()).job_id).toBe(sound);
    expect(errors.events().filter((event) => event === "damaged_row")).toHaveLength(damaged.length);
    for (const { name, id } of damaged.filter(({ damage }) => !damage.startsWith("created_at"))) {
      expect(await hub.job(id), name).toMatchObject({ status: "failed", result: { error: "worker_lost" } });
    }
  });
});
