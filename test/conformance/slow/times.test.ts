import { beforeAll, describe, expect, test } from "vitest";
import { type Job, llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { pass, stopwatch } from "../support/wait.ts";
import { fullWorker, keepSocketsOpen, specWorker, type WorkerSocket } from "../support/worker.ts";

keepSocketsOpen();
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const TICK = 2_000;
/** Extra time for a busy machine. */
const SLACK = 1_500;

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

/** Creates a user and pairs these workers, so that only they get its PRIVATE jobs. */
async function owner(...workers: WorkerSocket[]): Promise<string> {
  const user = newUser();
  await evm.api.pair(user, ...workers);
  return user;
}

function mine(user: string, input = "I love this"): Record<string, unknown> {
  return task(user, input, { privacy_class: "PRIVATE" });
}

const tasksOnly = { capabilities: ["TASK"] };

/** A worker that takes one TASK and keeps it alive until stopped. */
async function occupy(worker: WorkerSocket, user: string): Promise<{ id: string; stop: () => void }> {
  const id = await evm.api.commit(mine(user, "occupying"));
  const assign = await worker.assigned(id);
  worker.ack(assign);
  let seq = 0;
  const timer = setInterval(() => worker.progress(assign, seq++), 5_000);
  return { id, stop: () => clearInterval(timer) };
}

function seconds(job: Job, ms: number): string {
  return `${JSON.stringify(job)} after ${Math.round(ms)} ms`;
}

describe.concurrent("times of a job", () => {
  test(
    "[SPEC] a PUBLIC job that no worker can take fails with no_eligible_worker after 30 s; receipt and completed_at are null",
    { timeout: 60_000 },
    async () => {
      // Every worker of this file announces TASK only.
      const clock = stopwatch();
      const id = await evm.api.commit(llm(newUser()));
      const asked = evm.api.post("/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }] });
      const early = await evm.api.until(id, () => clock() > 28_000, 40_000);
      expect(early).toMatchObject({ status: "pending", result: null, receipt: null, completed_at: null });
      const job = await evm.api.ended(id, 20_000);
      expect(clock(), seconds(job, clock())).toBeGreaterThan(29_500);
      expect(clock()).toBeLessThan(30_000 + TICK + SLACK);
      expect(job).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" }, receipt: null, completed_at: null });
      const { status, body, headers } = await asked;
      expect({ status, body, again: headers.get("x-should-retry") }).toMatchObject({
        status: 503,
        body: { error: { code: "no_eligible_worker" } },
        again: "false",
      });
    },
  );

  test("[JB8, JB5] a PRIVATE job whose worker stays busy waits 30 s, then fails with no_eligible_worker", { timeout: 60_000 }, async () => {
    const worker = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(worker);
    const other = await occupy(worker, user);
    const clock = stopwatch();
    const id = await evm.api.commit(mine(user));
    const job = await evm.api.ended(id, 45_000);
    other.stop();
    expect(clock(), seconds(job, clock())).toBeGreaterThan(29_500);
    expect(clock()).toBeLessThan(30_000 + TICK + SLACK);
    expect(job.result).toEqual({ error: "no_eligible_worker" });
    expect(worker.had(id)).toBe(false);
  });

  test("[WS9, JB4] a worker that lists ack and does not ack in 5 s loses the job to another one, which gets attempt 2", { timeout: 40_000 }, async () => {
    const mute = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(mute);
    const clock = stopwatch();
    const id = await evm.api.commit(mine(user));
    const first = await mute.assigned(id);
    expect(first.attempt).toBe(1);
    const next = await fullWorker(evm.socketUrl, tasksOnly);
    await evm.api.pair(user, next);
    const second = await next.assigned(id, 20_000);
    expect(clock()).toBeGreaterThan(4_800);
    expect(clock()).toBeLessThan(5_000 + TICK + SLACK);
    expect(second.attempt).toBe(2);
    next.ack(second);
    expect((await evm.api.until(id, "running")).result).toBeNull();
    expect((await next.complete(id, OUTPUT, { attempt: 2 })).status).toBe("accepted");
  });

  test(
    "[JB6] the late result of a worker that lost the job counts while the job is not terminal; the other holder is cancelled",
    { timeout: 40_000 },
    async () => {
      const slow = await fullWorker(evm.socketUrl, tasksOnly);
      const user = await owner(slow);
      const id = await evm.api.commit(mine(user));
      await slow.assigned(id);
      const next = await fullWorker(evm.socketUrl, tasksOnly);
      await evm.api.pair(user, next);
      const second = await next.assigned(id, 20_000);
      next.ack(second);
      await evm.api.until(id, "running");
      expect(await slow.complete(id, OUTPUT, { attempt: 1 })).toMatchObject({ status: "accepted" });
      const job = await evm.api.ended(id);
      expect(job).toMatchObject({ status: "completed", result: OUTPUT, receipt: { provider_pubkey: slow.pubkey } });
      expect(await next.frame("job_cancel")).toMatchObject({ job_id: id, attempt: 2, reason: expect.any(String) });
      expect(await next.complete(id, { sentiment: "late", confidence: 0 }, { attempt: 2 })).toMatchObject({ status: "rejected", error: "already_terminal" });
      expect(await evm.api.job(id), "[RC5] a stored pair never changes").toEqual(job);
    },
  );

  test("[JB4] a TASK may run 30 s per attempt: a worker that never acks loses it then, and is told", { timeout: 60_000 }, async () => {
    const stuck = await specWorker(evm.socketUrl, tasksOnly);
    const user = await owner(stuck);
    const clock = stopwatch();
    const id = await evm.api.commit(mine(user));
    await stuck.assigned(id);
    const next = await specWorker(evm.socketUrl, tasksOnly);
    await evm.api.pair(user, next);
    await evm.api.until(id, (job) => clock() > 25_000 && job.status === "assigned", 27_000);
    expect(await next.assigned(id, 20_000)).toMatchObject({ attempt: 2 });
    expect(clock()).toBeGreaterThan(29_500);
    expect(clock()).toBeLessThan(30_000 + TICK + SLACK);
    expect((await next.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[JB4] job_progress renews the 30 s of a TASK", { timeout: 80_000 }, async () => {
    const worker = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(worker);
    const id = await evm.api.commit(mine(user));
    const assign = await worker.assigned(id);
    worker.ack(assign);
    for (const seq of [0, 1]) {
      await pass(20_000);
      worker.progress(assign, seq);
    }
    await pass(5_000);
    expect((await evm.api.job(id)).status).toBe("running");
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[JB4] a worker that disconnects keeps its job for 15 s, then another worker gets it", { timeout: 40_000 }, async () => {
    const lost = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(lost);
    const id = await evm.api.commit(mine(user));
    lost.ack(await lost.assigned(id));
    await evm.api.until(id, "running");
    const next = await fullWorker(evm.socketUrl, tasksOnly);
    await evm.api.pair(user, next);
    lost.close();
    const clock = stopwatch();
    const assign = await next.assigned(id, 25_000);
    expect(clock()).toBeGreaterThan(14_500);
    expect(clock()).toBeLessThan(15_000 + TICK + SLACK);
    expect(assign.attempt).toBe(2);
    next.ack(assign);
    expect((await next.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[JB4, JB5] after the grace a fresh claim window of 30 s follows, and ends with the last attempt's cause worker_lost", { timeout: 80_000 }, async () => {
    const lost = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(lost);
    const id = await evm.api.commit(mine(user));
    lost.ack(await lost.assigned(id));
    await evm.api.until(id, "running");
    lost.close();
    const clock = stopwatch();
    await evm.api.until(id, (job) => job.status === "pending" && job.result === null && job.receipt === null, 20_000);
    expect(clock()).toBeGreaterThan(14_500);
    const job = await evm.api.ended(id, 40_000);
    expect(job).toMatchObject({ status: "failed", result: { error: "worker_lost" } });
    expect(clock()).toBeGreaterThan(44_500);
    expect(clock()).toBeLessThan(45_000 + 2 * TICK + SLACK);
  });

  test(
    "[JB4] a worker that failed a job gets it again only when no other eligible one is connected: a busy one is waited for",
    { timeout: 40_000 },
    async () => {
      const busy = await fullWorker(evm.socketUrl, tasksOnly);
      const user = await owner(busy);
      const first = await evm.api.commit(mine(user));
      busy.ack(await busy.assigned(first));
      const failing = await fullWorker(evm.socketUrl, tasksOnly);
      await evm.api.pair(user, failing);
      const id = await evm.api.commit(mine(user));
      const assign = await failing.assigned(id);
      failing.ack(assign);
      failing.fail(assign, true);
      await evm.api.until(id, "pending");
      await pass(3 * TICK);
      expect(failing.frames.filter((frame) => frame.type === "job_assign" && frame.job_id === id)).toHaveLength(1);
      expect((await busy.complete(first, OUTPUT)).status).toBe("accepted");
      expect((await busy.assigned(id)).attempt).toBe(2);
      expect((await busy.complete(id, OUTPUT)).status).toBe("accepted");
    },
  );

  test("[JB4] the only worker gets a job that it failed again, at a later 2 s tick and not at once", { timeout: 40_000 }, async () => {
    const worker = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(worker);
    const id = await evm.api.commit(mine(user));
    const assign = await worker.assigned(id);
    worker.ack(assign);
    await evm.api.until(id, "running");
    worker.fail(assign, true);
    await evm.api.until(id, "pending");
    const clock = stopwatch();
    const again = await worker.frame((frame) => frame.type === "job_assign" && frame.attempt === 2);
    expect(clock()).toBeLessThan(TICK + SLACK);
    worker.ack(again);
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[API6] wait is clamped to 25 s: a longer one answers the present state then", { timeout: 60_000 }, async () => {
    const worker = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(worker);
    const { id, stop } = await occupy(worker, user);
    const answer = await evm.api.get(`/v1/jobs/${id}?wait=60`);
    stop();
    expect(answer.ms).toBeGreaterThan(24_500);
    expect(answer.ms).toBeLessThan(25_000 + SLACK);
    expect(answer.body).toMatchObject({ id, status: "running" });
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[JB3] a FAST job committed 11 s after a CHEAP one comes after it", { timeout: 60_000 }, async () => {
    const worker = await fullWorker(evm.socketUrl, tasksOnly);
    const user = await owner(worker);
    const { id, stop } = await occupy(worker, user);
    const cheap = await evm.api.commit(mine(user), "cheap");
    await pass(11_000);
    const fast = await evm.api.commit(mine(user), "fast");
    stop();
    await worker.complete(id, OUTPUT);
    worker.ack(await worker.assigned(cheap));
    expect(worker.had(fast)).toBe(false);
    await worker.complete(cheap, OUTPUT);
    worker.ack(await worker.assigned(fast));
    await worker.complete(fast, OUTPUT);
  });
});
