import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { stopwatch, within } from "../support/wait.ts";
import { newIdentity, receiptFor } from "../support/identity.ts";
import { type Frame, fullWorker, specWorker, unsignedWorker, type WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };

beforeAll(async () => {
  evm = await start("evm");
});

beforeEach(async () => {
  await within(
    10_000,
    async () => ((await evm.api.get("/v1/health")).body.workers_online === 0 ? true : undefined),
    () => "the last test's workers to leave",
  );
});

/** Returns the jobs of a worker in the order of their assignment. */
const given = (worker: WorkerSocket): unknown[] => worker.frames.filter(({ type }) => type === "job_assign").map(({ job_id }) => job_id);

/** A worker that attaches its job listener only some time after `register_ack`, as many do: it misses frames in between. It runs its first job. */
async function lateWorker(url: string, delay: number): Promise<Frame> {
  const identity = newIdentity();
  const socket = new WebSocket(url);
  onTestFinished(() => socket.close());
  const next = (type: string): Promise<Frame> =>
    new Promise((resolve) => {
      const hear = ({ data }: MessageEvent): void => {
        const frame = JSON.parse(String(data)) as Frame;
        if (frame.type !== type) return;
        socket.removeEventListener("message", hear);
        resolve(frame);
      };
      socket.addEventListener("message", hear);
    });
  await new Promise((resolve) => socket.addEventListener("open", resolve));
  const registered = next("register_ack");
  socket.send(JSON.stringify({ type: "register", provider_pubkey: identity.pubkey, provider_type: "DESKTOP", capabilities: ["TASK"] }));
  await registered;
  await new Promise((resolve) => setTimeout(resolve, delay));
  const assign = await next("job_assign");
  const answered = next("job_complete_ack");
  const id = String(assign.job_id);
  socket.send(JSON.stringify({ type: "job_complete", job_id: id, output: OUTPUT, ...receiptFor(identity, id, OUTPUT) }));
  expect(await answered).toMatchObject({ status: "accepted" });
  return assign;
}

describe("PUBLIC jobs", () => {
  test("[JB3] waiting jobs go by key: FAST by created_at, CHEAP 10 s later", async () => {
    const cheap1 = await evm.api.commit(task(newUser()), "cheap");
    const fast1 = await evm.api.commit(task(newUser()), "fast");
    const cheap2 = await evm.api.commit(task(newUser()), "cheap");
    const fast2 = await evm.api.commit(task(newUser()), "fast");
    const clock = stopwatch();
    const worker = await unsignedWorker(evm.socketUrl);
    for (const id of [fast1, fast2, cheap1, cheap2]) {
      await worker.assigned(id, 1_500);
      await worker.complete(id, OUTPUT);
    }
    expect(given(worker)).toEqual([fast1, fast2, cheap1, cheap2]);
    expect(clock(), "[JB2] at once, not at the 2 s tick").toBeLessThan(4_000);
  });

  test("[JB2] a free worker is claimed at once", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    for (let each = 0; each < 5; each += 1) {
      const clock = stopwatch();
      const id = await evm.api.commit(task(newUser()));
      await worker.assigned(id);
      expect(clock()).toBeLessThan(1_000);
      await worker.complete(id, OUTPUT);
    }
  });

  test("[JB2] a worker that registers takes the waiting job at once", async () => {
    const id = await evm.api.commit(task(newUser()));
    const worker = await unsignedWorker(evm.socketUrl);
    const clock = stopwatch();
    await worker.assigned(id);
    expect(clock()).toBeLessThan(1_000);
    await worker.complete(id, OUTPUT);
  });

  test("[JB2] a worker written from the specification alone that attaches its job listener 1 s after register_ack loses no job", async () => {
    const waiting = await evm.api.commit(task(newUser()));
    const clock = stopwatch();
    expect(await lateWorker(evm.socketUrl, 1_000)).toMatchObject({ job_id: waiting, attempt: 1 });
    expect(clock(), "soon after its first 2 s, not after a time-out").toBeLessThan(5_000);
  });

  test("[JB2] a worker without ack is given a waiting job when its first 2 s are over, and what comes then at once", async () => {
    const first = await evm.api.commit(task(newUser()));
    const clock = stopwatch();
    const worker = await specWorker(evm.socketUrl);
    await worker.assigned(first);
    expect(clock()).toBeGreaterThanOrEqual(2_000);
    expect(clock(), "not at a later tick").toBeLessThan(3_900);
    await worker.complete(first, OUTPUT);
    const again = stopwatch();
    const second = await evm.api.commit(task(newUser()));
    await worker.assigned(second);
    expect(again()).toBeLessThan(1_000);
    await worker.complete(second, OUTPUT);
  });

  test("[JB2] another idle worker takes the job at once while one without ack settles in", async () => {
    const fresh = await specWorker(evm.socketUrl);
    const other = await unsignedWorker(evm.socketUrl);
    const clock = stopwatch();
    const id = await evm.api.commit(task(newUser()));
    await other.assigned(id);
    expect(clock()).toBeLessThan(1_000);
    expect(fresh.had(id)).toBe(false);
    await other.complete(id, OUTPUT);
  });

  test("[JB3] among free workers the least recently used is first", async () => {
    const workers = [await unsignedWorker(evm.socketUrl), await unsignedWorker(evm.socketUrl), await unsignedWorker(evm.socketUrl)];
    const order: number[] = [];
    for (let each = 0; each < 9; each += 1) {
      const id = await evm.api.commit(task(newUser()));
      await evm.api.until(id, "running");
      await Promise.all(workers.map((worker) => worker.settled()));
      const index = workers.findIndex((worker) => worker.had(id));
      order.push(index);
      await workers[index]?.complete(id, OUTPUT);
    }
    expect(new Set(order.slice(0, 3)).size).toBe(3);
    expect(order.slice(3, 6)).toEqual(order.slice(0, 3));
    expect(order.slice(6, 9)).toEqual(order.slice(0, 3));
  });

  test("[SPEC] capabilities: TASK-only and LLM-only workers get only theirs", async () => {
    const tasks = await unsignedWorker(evm.socketUrl, { capabilities: ["TASK"] });
    const chats = await unsignedWorker(evm.socketUrl, { capabilities: ["LLM_INFER"] });
    const mobile = await unsignedWorker(evm.socketUrl, { provider_type: "MOBILE" });
    const ids = [];
    for (let each = 0; each < 3; each += 1) ids.push(await evm.api.commit(llm(newUser())));
    for (const id of ids) {
      await chats.assigned(id);
      await chats.complete(id, "hi");
    }
    expect(given(tasks)).toEqual([]);
    expect(given(mobile)).toEqual([]);
    const taskId = await evm.api.commit(task(newUser()));
    await evm.api.until(taskId, "running");
    expect(given(chats)).toEqual(ids);
    const holder = tasks.had(taskId) ? tasks : mobile;
    expect((await holder.complete(taskId, OUTPUT)).status).toBe("accepted");
  });

  test("[SPEC, JB3, JB9] 20 workers and 200 jobs at once: each job is given once, each worker has one at a time, all complete", async () => {
    const workers = await Promise.all(Array.from({ length: 20 }, (_, index) => (index % 2 ? fullWorker : unsignedWorker)(evm.socketUrl)));
    let busy = 0;
    let double = 0;
    const assignments = new Map<string, number>();
    const serving = new Set<WorkerSocket>();
    const seen = new Map(workers.map((worker) => [worker, 0]));
    const timer = setInterval(() => {
      for (const worker of workers) {
        for (let index = seen.get(worker) ?? 0; index < worker.frames.length; index += 1) {
          const frame = worker.frames[index];
          if (frame?.type === "job_complete_ack") serving.delete(worker);
          if (frame?.type !== "job_assign") continue;
          const id = String(frame.job_id);
          assignments.set(id, (assignments.get(id) ?? 0) + 1);
          if (serving.has(worker)) double += 1;
          serving.add(worker);
          busy = Math.max(busy, serving.size);
          worker.ack(frame);
          worker.send(worker.completion(id, OUTPUT));
        }
        seen.set(worker, worker.frames.length);
      }
    }, 5);
    try {
      const ids = await Promise.all(Array.from({ length: 200 }, (_, index) => evm.api.commit(task(newUser(), `job ${index}`), index % 2 ? "fast" : "cheap")));
      const jobs = await Promise.all(ids.map((id) => evm.api.ended(id, 25_000)));
      expect(jobs.every(({ status }) => status === "completed")).toBe(true);
      expect(ids.every((id) => assignments.get(id) === 1)).toBe(true);
      expect(double).toBe(0);
      expect(busy).toBeGreaterThan(1);
    } finally {
      clearInterval(timer);
    }
  });

  test("[WS10] a second completion of a finished job does not free the worker twice: it still has one job at a time", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const first = await evm.api.commit(task(newUser()));
    await worker.assigned(first);
    const sent = worker.completion(first, OUTPUT);
    await worker.ask(sent, "job_complete_ack");
    const second = await evm.api.commit(task(newUser()));
    await worker.assigned(second);
    const third = await evm.api.commit(task(newUser()));
    expect(await worker.ask(sent, "job_complete_ack")).toMatchObject({ status: "duplicate" });
    await worker.settled();
    expect(worker.had(third)).toBe(false);
    await worker.complete(second, OUTPUT);
    await worker.assigned(third);
    await worker.complete(third, OUTPUT);
  });
});
