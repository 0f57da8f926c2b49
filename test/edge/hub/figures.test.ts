import { expect, test } from "vitest";
import { TestHub, until } from "../support/worker-hub.ts";

/** The figures of a hub, as the process that runs it asks for them. */
const figuresOf = async (hub: TestHub) => await hub.stub.figures();

test("[JB1] a hub counts its workers, its jobs by phase, and how they ended", async () => {
  const hub = new TestHub();
  const first = await hub.commit();
  expect(await figuresOf(hub)).toMatchObject({ workers: { idle: 0, busy: 0 }, jobs: { waiting: 1, leased: 0 }, ended: [] });
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
    ["TASK", "completed", 1],
    ["TASK", "worker_error", 1],
  ]);
  expect([jobs.waiting, jobs.leased, workers]).toEqual([0, 0, { idle: 1, busy: 0 }]);
  expect(stored.hub).toBeGreaterThan(0);
});
