import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { pass, stopwatch } from "../support/wait.ts";
import { fullWorker, keepSocketsOpen, type WorkerSocket } from "../support/worker.ts";

keepSocketsOpen();
const TICK = 2_000;
/** Extra time for a busy machine. */
const SLACK = 1_500;

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

/** Commits a PRIVATE job of a new user that only this worker may take. */
async function jobFor(worker: WorkerSocket): Promise<string> {
  const user = newUser();
  await evm.api.pair(user, worker);
  return evm.api.commit(task(user, "I love this", { privacy_class: "PRIVATE" }));
}

describe.concurrent("a job that takes minutes", () => {
  test("[JB4, JB5] three attempts of 30 s each, all by the only worker, fail with execution_timeout", { timeout: 130_000 }, async () => {
    const stuck = await fullWorker(evm.socketUrl);
    const clock = stopwatch();
    const id = await jobFor(stuck);
    for (const attempt of [1, 2, 3]) {
      const assign = await stuck.frame((frame) => frame.type === "job_assign" && frame.attempt === attempt, { ms: 45_000 });
      stuck.ack(assign);
    }
    const job = await evm.api.ended(id, 45_000);
    expect(job).toMatchObject({ status: "failed", result: { error: "execution_timeout" }, receipt: null, completed_at: null });
    expect(clock()).toBeGreaterThan(89_000);
    expect(clock()).toBeLessThan(90_000 + 3 * (TICK + SLACK));
  });

  test("[JB4, JB5, WS11] after 180 s in all the job fails with deadline_exceeded and its worker gets job_cancel", { timeout: 220_000 }, async () => {
    const worker = await fullWorker(evm.socketUrl);
    const clock = stopwatch();
    const id = await jobFor(worker);
    const assign = await worker.assigned(id);
    worker.ack(assign);
    let seq = 0;
    const keepAlive = setInterval(() => worker.progress(assign, seq++), 5_000);
    const deadline = Date.parse(String(assign.deadline));
    expect(Math.abs(deadline - Date.parse((await evm.api.job(id)).created_at) - 180_000)).toBeLessThan(1_000);
    await pass(176_000 - clock());
    expect((await evm.api.job(id)).status).toBe("running");
    const job = await evm.api.ended(id, 20_000);
    clearInterval(keepAlive);
    expect(job).toMatchObject({ status: "failed", result: { error: "deadline_exceeded" }, receipt: null, completed_at: null });
    expect(clock()).toBeGreaterThan(179_500);
    expect(clock()).toBeLessThan(180_000 + TICK + SLACK);
    expect(await worker.frame("job_cancel")).toMatchObject({ job_id: id, attempt: 1, reason: expect.any(String) });
  });
});
