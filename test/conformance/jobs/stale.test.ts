import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { within } from "../support/wait.ts";
import { type Frame, fullWorker, unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", RECEIPT_POLICY: "strict" });
});

/** A job that `first` failed and `second` runs as attempt 2. */
async function handedOver() {
  const first = await fullWorker(evm.socketUrl);
  const user = newUser();
  await evm.api.pair(user, first);
  const id = await evm.api.commit(task(user, "x", PRIVATE));
  const lost = await first.assigned(id);
  first.ack(lost);
  const second = await fullWorker(evm.socketUrl);
  await evm.api.pair(user, second);
  first.fail(lost, true);
  const assign = await second.assigned(id);
  second.ack(assign);
  await second.settled();
  expect(assign.attempt).toBe(2);
  return { first, second, user, id, lost, assign };
}

describe("events of a past attempt", () => {
  test("[WS12, WS9] ack, progress, failure and rejection of a former holder change nothing", async () => {
    const { first, second, id, lost } = await handedOver();
    for (const attempt of [1, 2]) {
      first.send({ type: "job_ack", job_id: id, attempt });
      first.send({ type: "job_progress", job_id: id, attempt, seq: 0, delta: "late" });
      first.send({ type: "job_failed", job_id: id, attempt, error: "late", retryable: false });
    }
    first.send({ type: "job_reject", job_id: id, reason: "late" });
    first.fail(lost, true);
    await first.settled();
    await second.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect(second.frames.map(({ type }) => type)).not.toContain("job_cancel");
    expect((await second.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[JB6, RC3] a former holder's valid result counts and cancels the present holder", async () => {
    const { first, second, id } = await handedOver();
    expect(await first.complete(id, OUTPUT)).toMatchObject({ status: "accepted" });
    expect(await second.frame("job_cancel")).toMatchObject({ job_id: id, attempt: 2 });
    expect(await second.complete(id, OUTPUT)).toMatchObject({ status: "rejected", error: "already_terminal" });
    expect((await evm.api.job(id)).receipt).toMatchObject({ provider_pubkey: first.pubkey });
  });

  test("[RC4] a former holder's invalid result is refused and does not disturb the present holder", async () => {
    const { first, second, id } = await handedOver();
    expect(await first.complete(id, OUTPUT, { receipt: {} })).toMatchObject({ status: "rejected", error: "invalid_receipt" });
    await second.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect(second.frames.map(({ type }) => type)).not.toContain("job_cancel");
    expect((await second.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS11, JB2] a cancelled worker is free for the next job", async () => {
    const { first, second, user, id } = await handedOver();
    first.close();
    await first.ended();
    const back = await fullWorker(evm.socketUrl, {}, first.identity);
    expect(await back.complete(id, OUTPUT)).toMatchObject({ status: "accepted" });
    await second.frame("job_cancel");
    back.close();
    await back.ended();
    const next = await evm.api.commit(task(user, "next", PRIVATE));
    await second.assigned(next, 4_000);
    expect((await second.complete(next, OUTPUT)).status).toBe("accepted");
  });

  test("[WS9] job_failed of another attempt than the held one changes nothing", async () => {
    const { second, id } = await handedOver();
    for (const attempt of [1, 3, 0, 99]) second.send({ type: "job_failed", job_id: id, attempt, error: "x", retryable: false });
    await second.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect((await second.complete(id, OUTPUT)).status).toBe("accepted");
  });

  /** A worker that got a job and gave it back. */
  async function gaveBack(how: (worker: WorkerSocket, assign: Frame) => void): Promise<{ worker: WorkerSocket; id: string }> {
    const worker = await fullWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    how(worker, await worker.assigned(id));
    return { worker, id };
  }

  test("[WS12, JB6] a result after job_failed counts while the job waits: the worker held a lease", async () => {
    const { worker, id } = await gaveBack((one, assign) => one.fail(assign, true));
    expect(await worker.complete(id, OUTPUT)).toEqual({ type: "job_complete_ack", job_id: id, status: "accepted" });
    expect(await evm.api.job(id)).toMatchObject({ status: "completed", result: OUTPUT });
  });

  test("[WS9, WS12] a result after job_reject does not: the worker never started, so it held nothing", async () => {
    const { worker, id } = await gaveBack((one, { job_id }) => one.send({ type: "job_reject", job_id, reason: "later" }));
    expect(await worker.complete(id, OUTPUT)).toMatchObject({ status: "rejected", error: "not_assigned" });
    expect((await evm.api.job(id)).status).toBe("pending");
  });
});

describe("registrations and results of one moment", () => {
  test("[WS3, WS10] a second register in the middle of a job keeps the job", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    worker.ack(await worker.assigned(id));
    expect(await worker.registerPlain({ models: ["new"], features: ["ack"] })).toMatchObject({ status: "ok", authenticated: true });
    await worker.settled();
    expect((await evm.api.job(id)).status).toBe("running");
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS7, SPEC] thirty registrations of one key at once leave one worker online", async () => {
    await within(
      10_000,
      async () => ((await evm.api.get("/v1/health")).body.workers_online === 0 ? true : undefined),
      () => "the last test's workers to leave",
    );
    const identity = newIdentity();
    const sockets = await Promise.all(Array.from({ length: 30 }, () => WorkerSocket.open(evm.socketUrl, identity)));
    await Promise.all(sockets.map((socket) => socket.registerSigned().catch(() => null)));
    await within(
      5_000,
      () => (sockets.filter(({ closed }) => closed?.code === 4001).length === 29 ? true : undefined),
      () => "29 closes with 4001",
    );
    expect((await evm.api.get("/v1/health")).body.workers_online).toBe(1);
    const user = newUser();
    await evm.api.pair(user, identity.pubkey);
    const id = await evm.api.commit(task(user, "x", PRIVATE));
    const left = sockets.find(({ closed }) => closed === undefined);
    await left?.assigned(id);
    expect((await left?.complete(id, OUTPUT))?.status).toBe("accepted");
  });

  test("[WS10] a resume list of thousands is answered and does no harm", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    const resume = Array.from({ length: 5_000 }, (_, index) => ({ job_id: `11111111-2222-4333-8444-${String(index).padStart(12, "0")}`, attempt: 1 }));
    const ack = await worker.registerSigned({ resume });
    // The rule leaves open whether such a list is a wrong field, so both answers are allowed.
    expect(["ok", "error"]).toContain(ack.status);
    const other = await unsignedWorker(evm.socketUrl);
    await other.settled();
    expect((await evm.api.get("/v1/health")).status).toBe(200);
  });

  test("[WS10] the frames of two workers that finish at once are both answered", async () => {
    const pairs = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const worker = await unsignedWorker(evm.socketUrl);
        const user = newUser();
        await evm.api.pair(user, worker);
        const id = await evm.api.commit(task(user, "x", PRIVATE));
        await worker.assigned(id);
        return { worker, id };
      }),
    );
    const acks = await Promise.all(pairs.map(({ worker, id }) => worker.complete(id, OUTPUT)));
    expect(acks.map(({ status }) => status)).toEqual(pairs.map(() => "accepted"));
  });
});
