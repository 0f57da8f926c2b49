import { LIMITS } from "../../../src/protocol/limits.ts";
import { env } from "cloudflare:workers";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { utf8Length } from "../../../src/protocol/text.ts";
import { TestHub, until } from "../support/worker-hub.ts";

const OUTPUT = { summary: "s", n: [1, 2.5, "é"] };

// Here the shipped time: the rows of what lives must not be copied in the middle of a test.
const quick = TUNING.outboxLiveLinger;
beforeAll(() => void Object.assign(TUNING, { outboxLiveLinger: 1_000 }));
afterAll(() => void Object.assign(TUNING, { outboxLiveLinger: quick }));
afterEach(() => vi.restoreAllMocks());

const rows = (hub: TestHub): Promise<{ id: string }[]> => hub.sql("SELECT id FROM jobs");

async function handedOn(hub: TestHub, left = 0): Promise<void> {
  await until(async () => (await rows(hub)).length === left, "handed on");
}

async function count(table: "jobs" | "receipts", id: string): Promise<unknown> {
  return env.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE ${table === "jobs" ? "id" : "job_id"} = ?`)
    .bind(id)
    .first("n");
}

describe("from the hub to D1", () => {
  test("[JB9] a job is in D1 while it waits and while it runs, with the columns that an operator needs", async () => {
    const hub = new TestHub();
    const id = await hub.commit("fast", { user_id: "owner" });
    expect(await hub.recorded(id, "pending")).toMatchObject({
      job_type: "TASK",
      policy: "FAST",
      privacy_class: "PUBLIC",
      user_id: "owner",
      attempt: 0,
      provider_pubkey: null,
      result: null,
    });
    const worker = await hub.worker();
    await worker.assigned({ acks: false });
    expect(await hub.recorded(id, "assigned")).toMatchObject({
      attempt: 1,
      provider_pubkey: worker.key.publicKey,
      holders: JSON.stringify([worker.key.publicKey]),
    });
    expect(await rows(hub)).toHaveLength(1);
  });

  test("[JB9] only what has ended goes to D1 at once; what lives follows, also while other jobs end", async () => {
    const { outboxLiveLinger, outboxBackoff } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outboxLiveLinger, outboxBackoff }));
    // Neither the timer nor the alarm copies what lives, until the alarm is rung.
    Object.assign(TUNING, { outboxLiveLinger: 3_600_000, outboxBackoff: 3_600_000 });
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const [ends, waits] = [await hub.commit(), await hub.commit()];
    await worker.complete(await worker.assigned());
    await hub.recorded(ends, "completed");
    expect(await count("jobs", waits)).toBe(0);
    await hub.inside((inner) => inner.alarm());
    await hub.recorded(waits, "assigned");
    // A timer of an hour would keep the hub awake.
    Object.assign(TUNING, { outboxLiveLinger, outboxBackoff });
    await worker.complete(await worker.assigned());
    await handedOn(hub);
  });

  test("[JB9] while many jobs end, each alarm copies a few of those that wait, so most of a long queue is copied only once; at rest all of them are copied", async () => {
    const { outboxLiveLinger, outboxBackoff, outboxLinger, outboxLingerPerRow, outboxLingerMax, outboxLiveRows } = TUNING;
    const shipped = { outboxLiveLinger, outboxBackoff, outboxLinger, outboxLingerPerRow, outboxLingerMax, outboxLiveRows };
    onTestFinished(() => void Object.assign(TUNING, shipped));
    // One end counts as many. After it only the alarm copies, and only when it is rung.
    Object.assign(TUNING, { outboxLinger: 1, outboxLingerPerRow: 3_600_000, outboxLingerMax: 3_600_000, outboxLiveLinger: 3_600_000 });
    Object.assign(TUNING, { outboxBackoff: 3_600_000, outboxLiveRows: 2 });
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const [ends, ...waits] = [await hub.commit(), await hub.commit(), await hub.commit(), await hub.commit(), await hub.commit(), await hub.commit()];
    const copied = async () => (await Promise.all(waits.map((id) => count("jobs", id)))).filter((n) => n === 1).length;
    await worker.complete(await worker.assigned());
    await hub.recorded(ends, "completed");
    await handedOn(hub, waits.length);
    expect(await copied()).toBe(0);
    await hub.inside((inner) => inner.alarm());
    await until(async () => (await copied()) === 2, "two of them");
    await worker.complete(await worker.assigned());
    await handedOn(hub, waits.length - 1);
    expect(await copied()).toBe(2);
    await hub.inside((inner) => inner.alarm());
    await until(async () => (await copied()) === 4, "two more");
    // Nothing ends any more: one job is assigned, the others wait.
    Object.assign(TUNING, { outboxLiveLinger: 5 });
    await worker.assigned();
    await until(async () => (await copied()) === waits.length, "all of them");
    Object.assign(TUNING, shipped);
  });

  test("[JB9] what lives is copied without the alarm, also after others have ended and were copied", async () => {
    const { outboxLiveLinger, outboxBackoff } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outboxLiveLinger, outboxBackoff }));
    // No alarm comes.
    Object.assign(TUNING, { outboxLiveLinger: 20, outboxBackoff: 3_600_000 });
    const hub = new TestHub();
    const worker = await hub.plainWorker();
    await hub.commit();
    await worker.complete(await worker.assigned());
    await handedOn(hub);
    await hub.inside((_, state) => state.storage.deleteAlarm());
    const lives = await hub.commit();
    await hub.recorded(lives, "assigned");
  });

  test("[JB9] [LM3] what D1 has is not behind any more, however often it changed: a hub that copies everything never gets full", async () => {
    const { behindBytes } = LIMITS;
    const { outboxLinger } = TUNING;
    onTestFinished(() => void (Object.assign(LIMITS, { behindBytes }), Object.assign(TUNING, { outboxLinger })));
    // A job has about a hundred bytes.
    Object.assign(LIMITS, { behindBytes: 600 });
    Object.assign(TUNING, { outboxLinger: 5 });
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let n = 0; n < 12; n++) {
      await hub.commit();
      await worker.complete(await worker.assigned(), OUTPUT);
      await handedOn(hub);
    }
  });

  test("[RC5] [API1] the row leaves the hub once D1 has the end, and GET answers the same bytes before, between and after", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.complete(await worker.assigned(), OUTPUT);
    const get = () => hub.request(`/v1/jobs/${id}`).then(({ text }) => text);
    const recent = await get();
    expect(recent).toContain('"completed"');
    await hub.evict();
    expect(await get()).toBe(recent);
    await handedOn(hub);
    expect(await get()).toBe(recent);
    await hub.evict();
    expect(await hub.stub.job(id, 0)).toBeNull();
    expect(await get()).toBe(recent);
    expect([await count("jobs", id), await count("receipts", id)]).toEqual([1, 1]);
  });

  test("[API6] the cron does not have the hub forget a job that ended within a minute: its polls do not read D1", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.complete(await worker.assigned(), OUTPUT);
    await handedOn(hub);
    await env.DB.prepare("DELETE FROM jobs WHERE id = ?").bind(id).run();
    hub.skip(TUNING.recentKept - 1_000);
    await hub.stub.wake();
    expect(await hub.job(id)).toMatchObject({ status: "completed", result: OUTPUT });
  });

  test("[LM3] what retention has erased in D1 is told by no poll and no stream after the cron has woken the hub", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    worker.send({ type: "job_progress", job_id: id, attempt: job.attempt, seq: 0, delta: "streamed" });
    await worker.complete(job, OUTPUT);
    await handedOn(hub);
    const events = async () => (await hub.fetch(new Request(`http://hub.test/v1/jobs/${id}/events`))).text();
    expect(await events()).toContain("streamed");
    await env.DB.prepare("UPDATE jobs SET payload = NULL, result = NULL WHERE id = ?").bind(id).run();
    hub.skip(TUNING.recentKept);
    await hub.stub.wake();
    expect(await hub.job(id)).toMatchObject({ status: "completed", result: null });
    expect(await events()).not.toMatch(/streamed|summary/);
  });

  test("[RC5] [LM1] 1 MiB of quotes reaches D1", async () => {
    const hub = new TestHub();
    // In production D1 accepts at most 2 MB; the emulation accepts more.
    let largest = 0;
    await hub.breakD1({ bound: (values) => (largest = Math.max(largest, ...values.map((value) => utf8Length(String(value))))) });
    const worker = await hub.worker();
    const id = await hub.commit();
    const output = '"'.repeat(LIMITS.outputBytes / 2 - 1);
    expect(JSON.stringify(output)).toHaveLength(LIMITS.outputBytes);
    expect((await worker.complete(await worker.assigned(), output)).status).toBe("accepted");
    const hot = (await hub.request(`/v1/jobs/${id}`)).text;
    await handedOn(hub);
    expect(largest).toBeLessThan(2_000_000);
    await hub.evict();
    expect((await hub.request(`/v1/jobs/${id}`)).text === hot).toBe(true);
    expect(hot).toContain(JSON.stringify(output));
  });

  test("[LM1] the largest payload with the largest result reaches D1", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit("cheap", { payload: { task_type: "summarize", input: "\u0001".repeat(60_000), more: "é".repeat(60_000) } });
    const output = { output: "\u0001".repeat(174_000) };
    expect((await worker.complete(await worker.assigned(), output)).status).toBe("accepted");
    await hub.recorded(id, "completed");
    await handedOn(hub);
    // A row of the platform has 2 MB at most. Beside payload and result a row of a job has less than 64 KiB: ids, 35 keys, the holders, a snapshot.
    expect(LIMITS.payloadBytes + LIMITS.outputBytes + 64 * 1_024).toBeLessThan(2_000_000);
  });
});

describe("a failing D1", () => {
  test("[JB9] down: jobs go on, the outbox keeps them while the hub sleeps, and copies them when D1 is back", async () => {
    const hub = new TestHub();
    hub.skip(0);
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.complete(await worker.assigned(), OUTPUT);
    for (let tick = 0; tick < 4; tick++) await hub.pass(2_000);
    expect(await rows(hub)).toEqual([{ id }]);
    expect(await count("jobs", id)).toBe(0);
    expect(await hub.job(id)).toMatchObject({ status: "completed", result: OUTPUT });
    expect(await hub.alarmAt()).not.toBeNull();
    // After the loss of memory the hub uses the real D1 again.
    await hub.abort();
    await hub.pass(2_000);
    await hub.recorded(id, "completed");
    await handedOn(hub);
  });

  test("[JB14] down: the list of a user has the ends that only the hub has, and none of another user", async () => {
    const hub = new TestHub();
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const worker = await hub.worker();
    const id = await hub.commit("cheap", { user_id: "ann" });
    await worker.complete(await worker.assigned(), OUTPUT);
    await hub.commit("cheap", { user_id: "bob" });
    await worker.complete(await worker.assigned(), OUTPUT);
    const listed = await hub.stub.userJobs("ann", { before: null, limit: 9 });
    expect(listed.map((job) => `${job.id} ${job.status}`)).toEqual([`${id} completed`]);
  });

  test("[JB9] down for long: it is tried less and less often, at least every 30 s, and the fault is logged", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const hub = new TestHub();
    hub.skip(0);
    const asked: number[] = [];
    const began = Date.now();
    await hub.breakD1({
      batch: async () => {
        asked.push(Date.now() - began);
        throw new Error("down");
      },
    });
    await hub.commit();
    await until(async () => asked.length === 1, "asked");
    const heard: number[] = [];
    for (let second = 1; second <= 180; second++) {
      await hub.pass(1_000);
      if (log.mock.calls.join().includes("outbox_behind")) heard.push(second);
    }
    const gaps = asked.map((at, i) => at - (asked[i - 1] ?? 0)).slice(1);
    expect(gaps.slice(0, 5)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000]);
    expect(Math.max(...gaps)).toBe(30_000);
    // It is logged after a minute, by the next write that fails.
    expect(heard[0]).toBeGreaterThanOrEqual(60);
    expect(heard[0]).toBeLessThan(65);
    expect(log.mock.calls.join().match(/"event":"outbox_behind"/g)).toHaveLength(2);
    await hub.healD1();
  });

  test("[JB9] down: jobs that live do not count as behind, however many they are; the queue has its own limits", async () => {
    const { jobsBehind } = LIMITS;
    onTestFinished(() => void Object.assign(LIMITS, { jobsBehind }));
    Object.assign(LIMITS, { jobsBehind: 2 });
    const hub = new TestHub();
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const ids = [await hub.commit(), await hub.commit(), await hub.commit()];
    const worker = await hub.worker();
    await worker.complete(await worker.assigned(), OUTPUT);
    await worker.complete(await worker.assigned(), OUTPUT);
    expect((await hub.post("cheap")).body.error).toBe("queue_full");
    await hub.healD1();
    for (const id of ids.slice(0, 2)) await hub.recorded(id, "completed");
  });

  test("[JB9] a reply that is lost: the replay changes nothing, one job and one receipt", async () => {
    const hub = new TestHub();
    hub.skip(0);
    let lost = 0;
    await hub.breakD1({
      batch: async (run) => {
        const results = await run();
        if (++lost <= 2) throw new Error("Network connection lost");
        return results;
      },
    });
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.complete(await worker.assigned(), OUTPUT);
    const row = await hub.recorded(id, "completed");
    await until(async () => {
      await hub.pass(2_000);
      return (await rows(hub)).length === 0;
    }, "handed on");
    expect(lost).toBeGreaterThanOrEqual(3);
    expect(await hub.recorded(id, "completed")).toEqual(row);
    expect([await count("jobs", id), await count("receipts", id)]).toEqual([1, 1]);
  });

  test("[RC5] a write that arrives late does not undo what came after it", async () => {
    const hub = new TestHub();
    hub.skip(0);
    let late: (() => Promise<unknown>) | undefined;
    await hub.breakD1({
      batch: (run) => {
        if (late !== undefined) return run();
        late = run;
        return Promise.reject(new Error("late"));
      },
    });
    const id = await hub.commit();
    await until(async () => late !== undefined, "written");
    const worker = await hub.worker();
    await worker.complete(await worker.assigned(), OUTPUT);
    await hub.pass(2_000);
    const row = await hub.recorded(id, "completed");
    await hub.inside(() => late?.());
    expect(await hub.recorded(id, "completed")).toEqual(row);
  });

  test("[JB9] slow: rows that change during a write are written afterwards", async () => {
    const hub = new TestHub();
    const slow = Promise.withResolvers<void>();
    let asked = 0;
    await hub.breakD1({
      batch: async (run) => {
        if (++asked === 1) await slow.promise;
        return run();
      },
    });
    const id = await hub.commit();
    await until(async () => asked === 1, "asked");
    const worker = await hub.worker();
    expect((await worker.complete(await worker.assigned(), OUTPUT)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
    await hub.inside(() => slow.resolve());
    await hub.recorded(id, "completed");
    await handedOn(hub);
  });

  test("[JB9] the rows of many jobs are read with one statement, written with one batch and noted with one statement", async () => {
    const hub = new TestHub();
    const { outboxLinger } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outboxLinger }));
    Object.assign(TUNING, { outboxLinger: 60_000 });
    const ids = [];
    for (let n = 0; n < 20; n++) ids.push(await hub.commit());
    const statements: string[] = [];
    await hub.inside((_, state) => {
      const exec = state.storage.sql.exec.bind(state.storage.sql);
      vi.spyOn(state.storage.sql, "exec").mockImplementation((query: string, ...values: unknown[]) => {
        statements.push(query.split(" ")[0] ?? "");
        return exec(query, ...values);
      });
    });
    await hub.inside((inner) => inner.alarm());
    for (const id of ids) await hub.recorded(id, "pending");
    await until(async () => statements.includes("UPDATE"), "noted");
    expect(statements).toEqual(["SELECT", "UPDATE"]);
    vi.restoreAllMocks();
    expect(await hub.sql("SELECT count(*) AS n FROM jobs WHERE synced_rev < rev")).toEqual([{ n: 0 }]);
  });

  test("[JB9] ends of jobs that fill a write to D1 are copied at once; fewer are collected", async () => {
    const { outboxLinger, outboxLiveLinger, outboxBackoff, batchRows } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outboxLinger, outboxLiveLinger, outboxBackoff, batchRows }));
    Object.assign(TUNING, { outboxLinger: 3_600_000, outboxLiveLinger: 3_600_000, outboxBackoff: 3_600_000, batchRows: 3 });
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const end = async (): Promise<string> => {
      const id = await hub.commit();
      await worker.complete(await worker.assigned(), OUTPUT);
      return id;
    };
    const ids = [await end(), await end()];
    expect(await count("jobs", ids[0] ?? "")).toBe(0);
    ids.push(await end());
    // Each alarm copies everything, whatever it was set for.
    await hub.inside((_, { storage }) => storage.deleteAlarm());
    for (const id of ids) await until(async () => (await count("jobs", id)) === 1, "in D1");
    await handedOn(hub);
  });

  test("what is more than a full write waits for others: it would be two statements for a few rows", async () => {
    const { outboxLinger, outboxLiveLinger, outboxBackoff, batchRows } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outboxLinger, outboxLiveLinger, outboxBackoff, batchRows }));
    Object.assign(TUNING, { outboxLinger: 3_600_000, outboxLiveLinger: 3_600_000, outboxBackoff: 3_600_000 });
    const hub = new TestHub();
    hub.skip(0);
    const order: string[] = [];
    await hub.breakD1({
      batch: async () => {
        order.push("write");
        return [];
      },
    });
    const worker = await hub.worker();
    for (let n = 1; n <= 5; n++) {
      if (n === 5) Object.assign(TUNING, { batchRows: 3 });
      await hub.commit();
      await worker.complete(await worker.assigned(), OUTPUT);
    }
    await until(async () => order.length > 0, "written");
    // The next write would come at once.
    await hub.inside(() => scheduler.wait(10));
    expect(await rows(hub)).toHaveLength(2);
    await hub.inside((inner) => (order.push("alarm"), inner.alarm()));
    await handedOn(hub);
    expect(order).toEqual(["write", "alarm", "write"]);
  });

  test("between two writes to D1 everything else has its turn", async () => {
    const hub = new TestHub();
    const { batchRows } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { batchRows }));
    Object.assign(TUNING, { batchRows: 2 });
    const order: string[] = [];
    // A D1 that answers within the turn: as where one step of it leads to the next.
    await hub.breakD1({
      batch: async () => {
        order.push("write");
        setTimeout(() => order.push("other"), 0);
        return [];
      },
    });
    for (let n = 0; n < 6; n++) await hub.commit();
    await hub.inside((inner) => inner.alarm());
    await until(async () => order.length === 6, "written");
    expect(order).toEqual(["write", "other", "write", "other", "write", "other"]);
  });

  test("the more rows the last copy had, the longer the next ends of jobs are collected, up to a longest time", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const { outboxLinger, outboxLingerPerRow, outboxLingerMax, outboxLiveLinger } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outboxLinger, outboxLingerPerRow, outboxLingerMax, outboxLiveLinger }));
    const longer = { outboxLinger: 10_001, outboxLingerPerRow: 16_001, outboxLingerMax: 40_001 };
    Object.assign(TUNING, longer, { outboxLiveLinger: 3_600_000 });
    const timers = vi.spyOn(globalThis, "setTimeout");
    onTestFinished(() => timers.mockRestore());
    for (const jobs of [1, 2, 3, 1]) {
      for (let n = 0; n < jobs; n++) {
        await hub.commit();
        await worker.complete(await worker.assigned(), OUTPUT);
      }
      await hub.inside((inner) => inner.alarm());
      await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "copied");
    }
    const delays = timers.mock.calls.map(([, delay]) => delay);
    expect(delays.filter((delay) => [10_001, 16_001, 32_002, 40_001].includes(delay ?? 0))).toEqual([10_001, 16_001, 32_002, 40_001]);
  });

  test("[JB9] a row that D1 refuses does not delay the others, and its job can still be polled", async () => {
    const hub = new TestHub();
    hub.skip(0);
    await env.DB.prepare("CREATE TRIGGER poison BEFORE INSERT ON jobs WHEN new.user_id = 'poison' BEGIN SELECT RAISE(ABORT, 'poison'); END").run();
    const good: string[] = [];
    for (let i = 0; i < 3; i++) good.push(await hub.commit());
    const bad = await hub.commit("cheap", { user_id: "poison" });
    for (let i = 0; i < 3; i++) good.push(await hub.commit());
    await until(async () => {
      await hub.pass(1_000);
      const { results } = await env.DB.prepare("SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))").bind(JSON.stringify(good)).all();
      return results.length === good.length;
    }, "the good ones in D1");
    expect((await hub.job(bad)).id).toBe(bad);
    expect(await count("jobs", bad)).toBe(0);
    await env.DB.prepare("DROP TRIGGER poison").run();
    await until(async () => {
      await hub.pass(5_000);
      return (await count("jobs", bad)) === 1;
    }, "the bad one in D1");
  });

  test("[JB9] a row that D1 refuses does not delay those that it refused only while it was down", async () => {
    const hub = new TestHub();
    hub.skip(0);
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const bad = await hub.commit("cheap", { user_id: "poison" });
    const good = await hub.commit();
    // Long enough for each of them to be refused alone.
    for (let pass = 0; pass < 8; pass++) await hub.pass(30_000);
    await env.DB.prepare("CREATE TRIGGER poison BEFORE INSERT ON jobs WHEN new.user_id = 'poison' BEGIN SELECT RAISE(ABORT, 'poison'); END").run();
    onTestFinished(async () => void (await env.DB.prepare("DROP TRIGGER poison").run()));
    await hub.healD1();
    await until(async () => {
      await hub.pass(30_000);
      return (await count("jobs", good)) === 1;
    }, "the good one in D1");
    expect(await count("jobs", bad)).toBe(0);
  });

  test("[WS10] a late result is not answered while D1 does not answer; when it is sent again, it is", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    const frame = worker.completion(job, OUTPUT);
    await worker.complete(job, OUTPUT, frame);
    await handedOn(hub);
    await hub.breakD1({ read: () => Promise.reject(new Error("down")) });
    worker.send(frame);
    await worker.quiet();
    await hub.healD1();
    worker.send(frame);
    expect((await worker.next("job_complete_ack")).status).toBe("duplicate");
  });

  test.for([
    [LIMITS.jobsBehind - 1, 1, 201],
    [LIMITS.jobsBehind, 1, 503],
    [2, LIMITS.behindBytes / 2 - 100, 201],
    [2, LIMITS.behindBytes / 2, 503],
  ] as const)("[JB9] [LM3] %i jobs of %i bytes behind, a commit is answered %i", async ([behind, bytes, status]) => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    await hub.sql(`INSERT INTO jobs (id, job_type, policy, privacy_class, user_id, payload, payload_bytes, created_at, rev, status, attempt, holders, result, ended_at)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${behind})
      SELECT 'old-' || i, 'TASK', 'CHEAP', 'PUBLIC', 'u', '{}', ${bytes}, 1, 1, 'failed', 0, '[]', '{"error":"cancelled"}', 1 FROM n`);
    await hub.evict();
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const answer = await hub.post("cheap");
    expect(answer.status).toBe(status);
    if (status === 503) expect(answer.body.error).toBe("queue_full");
  });
});
