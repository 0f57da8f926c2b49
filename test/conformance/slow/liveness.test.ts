import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { pass, stopwatch } from "../support/wait.ts";
import { keepSocketsOpen, WorkerSocket } from "../support/worker.ts";

keepSocketsOpen();
const SLACK = 2_000;
let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

async function silentWorker(): Promise<{ worker: WorkerSocket; user: string }> {
  const worker = await WorkerSocket.open(evm.socketUrl);
  await worker.registerPlain();
  const user = newUser();
  await evm.api.pair(user, worker);
  return { worker, user };
}

describe.concurrent("life of a socket", () => {
  test("[WS2] an unregistered socket is closed after 10 s, heartbeats or not", { timeout: 40_000 }, async () => {
    const clock = stopwatch();
    const worker = await WorkerSocket.open(evm.socketUrl);
    worker.beat(3_000);
    await worker.ended(20_000);
    expect(clock()).toBeGreaterThan(9_500);
    expect(clock()).toBeLessThan(10_000 + 2 * SLACK);
  });

  test("[WS7] an unsigned stranger replaces no worker that sends heartbeats, and one that has been silent for 15 s", { timeout: 60_000 }, async () => {
    const { worker: silent } = await silentWorker();
    const { worker: alive } = await silentWorker();
    alive.beat(5_000);
    await pass(15_500);
    const [intruder, heir] = [await WorkerSocket.open(evm.socketUrl, alive.identity), await WorkerSocket.open(evm.socketUrl, silent.identity)];
    expect(await intruder.registerPlain()).toMatchObject({ error: "already_connected", retry_after_s: 15 });
    expect((await intruder.ended()).code).toBe(4409);
    expect(alive.closed).toBeUndefined();
    expect(await heir.registerPlain()).toMatchObject({ status: "ok" });
    expect((await silent.ended()).code).toBe(4001);
  });

  test("[WS6] a worker silent for 25 s is given nothing; its next sign of life makes it claimable", { timeout: 70_000 }, async () => {
    const { worker, user } = await silentWorker();
    // The sweep runs every 30 s, so it closes the socket after 30 to 60 s of silence.
    await pass(25_500);
    const answer = await evm.api.tryCommit(task(user, "x", { privacy_class: "PRIVATE" }));
    // The rule leaves open whether a silent worker counts as connected, so both answers are allowed [JB8].
    expect([201, 422]).toContain(answer.status);
    const id = String(answer.body.job_id);
    await pass(2_500);
    expect(worker.had(id)).toBe(false);
    if (answer.status !== 201) return;
    expect((await evm.api.job(id)).status).toBe("pending");
    if (worker.closed) return;
    await worker.settled();
    const clock = stopwatch();
    await worker.assigned(id, 5_000);
    expect(clock()).toBeLessThan(2_000 + SLACK);
    await worker.complete(id, { sentiment: "neutral", confidence: 1 });
  });

  test("[WS6, WS4] the sweep closes with 4008 what was silent for 30 s, and its job goes to another worker", { timeout: 110_000 }, async () => {
    // The silence begins with its last frame, which is sent at some time between these two clocks.
    const before = stopwatch();
    const { worker, user } = await silentWorker();
    const clock = stopwatch();
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    const closed = await worker.ended(75_000);
    expect(closed.code).toBe(4008);
    expect(before()).toBeGreaterThan(29_900);
    expect(clock()).toBeLessThan(60_000 + 2 * SLACK);
    await evm.api.until(id, (job) => job.status !== "assigned" && job.status !== "running", 10_000);
  });

  test("[WS6] the exact heartbeat, and any other heartbeat object, every 10 s keep a worker connected and claimable", { timeout: 110_000 }, async () => {
    const exact = await silentWorker();
    const objects = await silentWorker();
    exact.worker.beat(10_000);
    objects.worker.beat(10_000, JSON.stringify({ type: "heartbeat", provider_pubkey: objects.worker.pubkey }));
    await pass(66_000);
    expect([exact.worker.closed, objects.worker.closed]).toEqual([undefined, undefined]);
    for (const { worker, user } of [exact, objects]) {
      const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
      await worker.assigned(id, 1_500);
      expect((await worker.complete(id, { sentiment: "neutral", confidence: 1 })).status).toBe("accepted");
    }
    expect(exact.worker.frames.filter(({ type }) => type === "heartbeat_ack").length).toBeGreaterThanOrEqual(6);
  });
});
