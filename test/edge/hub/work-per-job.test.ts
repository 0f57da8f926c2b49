// What one job costs, counted and never timed: SQL statements of the hub, RPCs, statements of D1, frames and bytes. A higher number is a slower coordinator
// on every machine; a lower one is an improvement to write down here.
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { endedHere } from "../../../src/coordinator/recent-jobs.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { WORK_PER_JOB } from "../../support/work-per-job.ts";
import { TestHub, until, withSettings } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";

withSettings({ WORKER_AUTH: "required", RECEIPT_POLICY: "strict" });

/** The test's own question, which is not counted. */
const LEFT = "SELECT id FROM jobs";
const OUTPUT = { summary: "s", word_count: 1 };

/** What a hub did since {@link watch}: the verb and table of each statement, the name of each RPC, how many batches it sent to D1. */
type Work = { statements: string[]; rpcs: string[]; d1Batches: number };

/** Counts the work of a hub from now on. */
async function watch(hub: TestHub): Promise<Work> {
  hub.rpcs.length = 0;
  const work: Work = { statements: [], rpcs: hub.rpcs, d1Batches: 0 };
  await hub.inside((inner, state) => {
    const { sql } = state.storage;
    const exec = sql.exec.bind(sql);
    sql.exec = (query, ...values) => {
      if (query !== LEFT) work.statements.push(/^(\w+).*?\b(jobs|keys|idempotency|payments)\b/s.exec(query)?.slice(1).join(" ") ?? query);
      return exec(query, ...values);
    };
    const { db } = inner;
    inner.db = new Proxy(db, {
      get(target, member) {
        if (member === "batch") work.d1Batches++;
        const value: unknown = Reflect.get(target, member);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  });
  return work;
}

/** Copies everything to D1, and waits until the hub has forgotten all jobs. */
async function copied(hub: TestHub): Promise<void> {
  await hub.inside((inner) => inner.alarm());
  await until(async () => (await hub.sql(LEFT)).length === 0, "empty journal");
}

// On a busy machine a job may take longer than changes are collected, and would be copied twice.
const { outboxLinger, outboxLiveLinger } = TUNING;
beforeAll(() => void Object.assign(TUNING, { outboxLinger: 60_000, outboxLiveLinger: 60_000 }));
afterAll(() => void Object.assign(TUNING, { outboxLinger, outboxLiveLinger }));

/** A hub whose worker has done the jobs that a new key must do: each of them writes to the row of the key too. */
async function warmHub(): Promise<{ hub: TestHub; worker: TestWorker }> {
  const hub = new TestHub();
  const worker = await hub.plainWorker({ signed: true });
  for (const user of ["one", "two", "three", "four"]) {
    await hub.commit("cheap", { user_id: user });
    await worker.complete(await worker.assigned());
    await copied(hub);
  }
  return { hub, worker };
}

describe("a free job alone, in the eyes of the hub", () => {
  it("is these statements, one RPC, one write to D1 and three frames, from commit to poll", async () => {
    const { hub, worker } = await warmHub();
    const work = await watch(hub);
    const before = worker.texts.length;
    const id = await hub.commit("cheap", { user_id: "five" });
    const job = await worker.assigned();
    const completion = JSON.stringify(worker.completion(job, OUTPUT));
    worker.send(completion);
    await worker.next("job_complete_ack");
    await until(async () => endedHere(id, Date.now()) !== null, "durable, as the isolate knows");
    expect(await hub.job(id)).toMatchObject({ status: "completed", result: OUTPUT });
    await copied(hub);
    const { statements, rpcs, d1Batches, frames } = WORK_PER_JOB;
    expect(work).toEqual({ statements, rpcs: rpcs.polled, d1Batches });
    const texts = [completion, ...worker.texts.slice(before)];
    expect({ count: texts.length, bytes: texts.join("").length }).toEqual(frames);
  });

  it("is one statement more if it has to wait for a worker: its claim is written later", async () => {
    const { hub, worker } = await warmHub();
    const work = await watch(hub);
    await hub.commit("cheap", { user_id: "five" });
    await hub.commit("cheap", { user_id: "six" });
    await worker.complete(await worker.assigned());
    await worker.complete(await worker.assigned());
    await copied(hub);
    // One statement deletes both.
    const { statements } = WORK_PER_JOB;
    expect(work.statements.toSorted()).toEqual([...statements, "INSERT jobs", "UPDATE jobs", "UPDATE jobs"].toSorted());
  });

  it("is one RPC if its commit waits for the end", async () => {
    const { hub, worker } = await warmHub();
    const work = await watch(hub);
    const waiting = hub.post("cheap", { user_id: "five" }, { prefer: "wait=20" });
    await worker.complete(await worker.assigned(), OUTPUT);
    const { job } = (await waiting).body;
    expect(job).toMatchObject({ status: "completed", result: OUTPUT });
    await copied(hub);
    const { statements, rpcs, d1Batches } = WORK_PER_JOB;
    expect(work).toEqual({ statements, rpcs: rpcs.waited, d1Batches });
  });
});

describe("a poll of a job that nobody has", () => {
  it("is one RPC and one query of D1, which the router makes itself", async () => {
    const { hub } = await warmHub();
    const work = await watch(hub);
    const queries = vi.spyOn(env.DB, "prepare");
    expect(await hub.request(`/v1/jobs/${crypto.randomUUID()}`)).toMatchObject({ status: 404 });
    expect([work.rpcs, queries.mock.calls.length]).toEqual([["job"], 1]);
    queries.mockRestore();
  });
});

describe("the attachment of a busy worker's socket", () => {
  it("is written every 5 s and no more often, however many jobs it gets; its times are at most 5 s old", async () => {
    const { hub, worker } = await warmHub();
    const writes: number[] = [];
    await hub.inside((_, state) => {
      for (const ws of state.getWebSockets()) {
        const serialize = ws.serializeAttachment.bind(ws);
        ws.serializeAttachment = (attachment: unknown) => (writes.push(Date.now()), serialize(attachment));
      }
    });
    const began = Date.now();
    for (let second = 1; second <= 20; second++) {
      hub.skip(1_000);
      await hub.commit("cheap", { user_id: `user-${second}` });
      await worker.complete(await worker.assigned(), OUTPUT);
      const { seenAt, worker: registered } = await hub.inside((_, state) => state.getWebSockets()[0]?.deserializeAttachment());
      for (const noted of [seenAt, registered.lastUsedAt]) expect(Date.now() - noted).toBeLessThan(TUNING.seenSaved);
    }
    const gaps = writes.slice(1).map((at, i) => at - (writes[i] ?? 0));
    expect({ first: (writes[0] ?? 0) - began, gaps }).toEqual({ first: expect.toSatisfy((ms: number) => ms <= TUNING.seenSaved), gaps: [5_000, 5_000, 5_000] });
    await copied(hub);
  });
});
