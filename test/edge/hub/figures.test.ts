import { expect, test } from "vitest";
import { TestHub, until } from "../support/worker-hub.ts";

/** The figures of a hub, as the process that runs it asks for them. */
const figuresOf = async (hub: TestHub) => await hub.stub.figures();

test("[JB1] a hub counts its workers, its jobs by phase, and how they ended", async () => {
  const hub = new TestHub();
  const first = await hub.commit();
  expect(await figuresOf(hub)).toMatchObject({
    workers: { idle: 0, busy: 0 },
    jobs: { waiting: 1, leased: 0 },
    ended: expect.arrayContaining([{ type: "TASK", outcome: "completed", jobs: 0, ms: 0 }]),
  });
  const worker = await hub.plainWorker();
  const one = await worker.assigned();
  expect(one.job_id).toBe(first);
  const second = await hub.commit();
  expect(await figuresOf(hub)).toMatchObject({ workers: { idle: 0, busy: 1 }, jobs: { waiting: 1, leased: 1 } });
  await worker.complete(one);
  await worker.assigned();
  worker.send({ type: "job_failed", job_id: second, attempt: 1, error: "broken", retryable: false });
  await until(async () => (await hub.job(second)).status === "failed", "failed");
  const { ended, jobs, workers, stored } = await figuresOf(hub);
  expect(ended.map(({ type, outcome, jobs }) => [type, outcome, jobs])).toEqual([
    ["LLM_INFER", "completed", 0],
    ["TASK", "completed", 1],
    ["TASK", "worker_error", 1],
  ]);
  expect([jobs.waiting, jobs.leased, workers]).toEqual([0, 0, { idle: 1, busy: 0 }]);
  expect(stored.hub).toBeGreaterThan(0);
});

test("[API6] a hub whose process ends gives those who wait their jobs as they are: at once if nothing runs, otherwise in the time that it has", async () => {
  const hub = new TestHub();
  /** What is answered long before the 25 s of a wait; undefined without an answer. */
  const answered = async <T>(answer: Promise<T>) => await Promise.race([answer, scheduler.wait(15_000)]);
  const waited = hub.post("cheap", {}, { prefer: "wait=25" });
  await until(async () => (await figuresOf(hub)).jobs.waiting === 1, "committed");
  expect(await hub.stub.leave(60_000)).toBe(false);
  expect(await answered(waited)).toMatchObject({ status: 201, body: { job: { status: "pending" } } });

  const worker = await hub.plainWorker();
  await worker.assigned();
  hub.runClock();
  const poll = hub.request(`/v1/jobs/${String((await waited).body.job_id)}?wait=25`);
  expect(await hub.stub.leave(50)).toBe(true);
  expect(await answered(poll)).toMatchObject({ status: 200, body: { status: "assigned" } });
});
