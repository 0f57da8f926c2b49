import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type Identity, newIdentity } from "../support/identity.ts";
import { pass, stopwatch } from "../support/wait.ts";
import { fullWorker, specWorker, type WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };

beforeAll(async () => {
  evm = await start("evm");
});

/** Connects a signed worker and gives it one running job. */
async function running(identity: Identity = newIdentity()) {
  const worker = await fullWorker(evm.socketUrl, {}, identity);
  const user = newUser();
  await evm.api.pair(user, worker);
  const id = await evm.api.commit(task(user, "x", PRIVATE));
  const assign = await worker.assigned(id);
  worker.ack(assign);
  await worker.settled();
  return { worker, user, id, assign, identity };
}

async function leave(worker: WorkerSocket): Promise<void> {
  worker.close();
  await worker.ended();
}

describe("reconnecting", () => {
  test("[WS10] resume absent: the lease is rebound and the result counts, for a signed and for a plain worker", async () => {
    const { worker, id, identity } = await running();
    await leave(worker);
    const back = await fullWorker(evm.socketUrl, {}, identity);
    await back.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect(back.had(id)).toBe(false);
    expect((await back.complete(id, OUTPUT)).status).toBe("accepted");

    const plain = newIdentity();
    const user = newUser();
    const one = await specWorker(evm.socketUrl, {}, plain);
    await evm.api.pair(user, one);
    const second = await evm.api.commit(task(user, "x", PRIVATE));
    await one.assigned(second);
    await leave(one);
    const two = await specWorker(evm.socketUrl, {}, plain);
    expect((await evm.api.job(second)).status).toBe("assigned");
    expect((await two.complete(second, OUTPUT)).status).toBe("accepted");
  });

  test("[WS10] resume that lists the job: rebound, no job_cancel, no second job_assign, no second job", async () => {
    const { worker, user, id, identity } = await running();
    await leave(worker);
    const waiting = await evm.api.tryCommit(task(user, "next", PRIVATE));
    const back = await fullWorker(evm.socketUrl, { resume: [{ job_id: id, attempt: 1 }] }, identity);
    await back.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect(back.frames.map(({ type }) => type)).not.toContain("job_cancel");
    expect(back.frames.map(({ type }) => type)).not.toContain("job_assign");
    expect((await back.complete(id, OUTPUT)).status).toBe("accepted");
    if (waiting.status !== 201) return;
    await back.assigned(String(waiting.body.job_id));
    await back.complete(String(waiting.body.job_id), OUTPUT);
  });

  test("[WS10] resume: [] requeues the job at once, for another worker as attempt 2", async () => {
    const { worker, user, id, identity } = await running();
    const other = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, other);
    await leave(worker);
    const clock = stopwatch();
    await fullWorker(evm.socketUrl, { resume: [] }, identity);
    const assign = await other.assigned(id);
    expect(clock()).toBeLessThan(1_500);
    expect(assign.attempt).toBe(2);
    other.ack(assign);
    expect((await other.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS10, JB4] resume: [] by the only worker: it gets the job again at a tick, as attempt 2", async () => {
    const { worker, id, identity } = await running();
    await leave(worker);
    const back = await fullWorker(evm.socketUrl, { resume: [] }, identity);
    const assign = await back.assigned(id, 4_000);
    expect(assign.attempt).toBe(2);
    back.ack(assign);
    expect((await back.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS10] what is not rebound gets job_cancel before any new assignment", async () => {
    const identity = newIdentity();
    const user = newUser();
    await evm.api.pair(user, identity.pubkey);
    const keeper = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, keeper);
    // The other worker is busy, so the job waits for the returning worker.
    const ofKeeper = await evm.api.commit(task(user, "held", PRIVATE));
    keeper.ack(await keeper.assigned(ofKeeper));
    const waiting = await evm.api.commit(task(user, "waiting", PRIVATE));
    const unknown = "11111111-2222-4333-8444-555555555555";
    const back = await fullWorker(
      evm.socketUrl,
      {
        resume: [
          { job_id: unknown, attempt: 1 },
          { job_id: ofKeeper, attempt: 1 },
        ],
      },
      identity,
    );
    await back.assigned(waiting);
    const kinds = back.frames.filter(({ type }) => type === "job_cancel" || type === "job_assign").map(({ type, job_id }) => `${type} ${String(job_id)}`);
    expect(kinds.slice(0, 2).toSorted()).toEqual([`job_cancel ${ofKeeper}`, `job_cancel ${unknown}`].toSorted());
    expect(kinds[2]).toBe(`job_assign ${waiting}`);
    expect(back.frames.find(({ type }) => type === "job_cancel")).toMatchObject({ attempt: expect.any(Number), reason: expect.any(String) });
    await keeper.complete(ofKeeper, OUTPUT);
    await back.complete(waiting, OUTPUT);
  });

  test("[WS10, JB6] a result finished while away is taken after reconnecting, by the same key on a new socket", async () => {
    const { worker, id, identity } = await running();
    const finished = worker.completion(id, OUTPUT, { attempt: 1 });
    await leave(worker);
    const back = await fullWorker(evm.socketUrl, { resume: [{ job_id: id, attempt: 1 }] }, identity);
    const answered = () => back.ask(finished, "job_complete_ack");
    expect(await answered()).toMatchObject({ job_id: id, status: "accepted" });
    expect(await answered()).toMatchObject({ job_id: id, status: "duplicate" });
    await leave(back);
    const again = await fullWorker(evm.socketUrl, {}, identity);
    expect(await again.ask(finished, "job_complete_ack"), "the ack was lost: resent after another reconnection").toMatchObject({ status: "duplicate" });
  });

  test("[WS7, WS10] a second socket of the key takes over the lease without a gap", async () => {
    const { worker, id, identity } = await running();
    const back = await fullWorker(evm.socketUrl, { resume: [{ job_id: id, attempt: 1 }] }, identity);
    expect((await worker.ended()).code).toBe(4001);
    await back.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect((await back.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS10] the rebound lease keeps its deadline: the grace of 15 s no longer runs", { timeout: 40_000 }, async () => {
    const { worker, id, identity } = await running();
    await leave(worker);
    await pass(3_000);
    const back = await fullWorker(evm.socketUrl, { resume: [{ job_id: id, attempt: 1 }] }, identity);
    await pass(16_000);
    expect((await evm.api.job(id)).status).toBe("running");
    expect((await back.complete(id, OUTPUT)).status).toBe("accepted");
  });
});

describe("drain and disconnect", () => {
  test("[WS11] drain while idle: drained, close 1000", async () => {
    const worker = await fullWorker(evm.socketUrl);
    expect(await worker.ask({ type: "drain" }, "drained")).toMatchObject({ type: "drained" });
    expect((await worker.ended()).code).toBe(1000);
  });

  test("[WS11] drain while busy: no new job, the running one is finished, then drained and close 1000", async () => {
    const { worker, user, id } = await running();
    const waiting = await evm.api.commit(task(user, "waiting", PRIVATE));
    worker.send({ type: "drain" });
    await worker.settled();
    expect(worker.frames.map(({ type }) => type)).not.toContain("drained");
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
    await worker.frame("drained");
    expect((await worker.ended()).code).toBe(1000);
    expect(worker.had(waiting)).toBe(false);
    expect((await evm.api.job(id)).status).toBe("completed");
    expect((await evm.api.job(waiting)).status).toBe("pending");
    const relief = await fullWorker(evm.socketUrl);
    await evm.api.pair(user, relief);
    await relief.assigned(waiting, 4_000);
    await relief.complete(waiting, OUTPUT);
  });
});

describe("the coordinator's own faults", () => {
  test("[JB9, WS4] killed after a 201 and after an assignment, it comes back with both jobs, and both complete", { timeout: 60_000 }, async () => {
    const identity = newIdentity();
    const user = newUser();
    const worker = await fullWorker(evm.socketUrl, {}, identity);
    await evm.api.pair(user, worker);
    const done = await evm.api.commit(task(user, "done", PRIVATE));
    worker.ack(await worker.assigned(done));
    await worker.complete(done, OUTPUT);
    const before = await evm.api.job(done);
    const id = await evm.api.commit(task(user, "assigned", PRIVATE));
    const waiting = await evm.api.commit(task(user, "waiting", PRIVATE));
    worker.ack(await worker.assigned(id));
    const finished = worker.completion(id, OUTPUT);
    await evm.kill();
    evm = await start("evm", { TESTNET_MODE: "true" }, evm);
    const back = await fullWorker(evm.socketUrl, { resume: [{ job_id: id, attempt: 1 }] }, identity);
    expect(await back.ask(finished, (frame) => frame.type === "job_complete_ack" && frame.job_id === id)).toMatchObject({ status: "accepted" });
    const assign = await back.assigned(waiting);
    back.ack(assign);
    expect((await back.complete(waiting, OUTPUT)).status).toBe("accepted");
    expect((await evm.api.ended(id)).status).toBe("completed");
    expect((await evm.api.ended(waiting)).status).toBe("completed");
    expect(await evm.api.job(done)).toEqual(before);
  });
});
