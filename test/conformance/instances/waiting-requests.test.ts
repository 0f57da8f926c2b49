import { beforeAll, expect, test } from "vitest";
import { llm, newUser } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { unsignedWorker } from "../support/worker.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

test("[API6] 2,000 requests wait at once; past that a wait answers the present state at once", { timeout: 60_000 }, async () => {
  const worker = await unsignedWorker(evm.socketUrl);
  const id = await evm.api.commit(llm(newUser()));
  await worker.assigned(id);
  let answered = 0;
  const waits: Promise<number>[] = [];
  for (let batch = 0; batch < 21; batch += 1) {
    for (let each = 0; each < 100; each += 1)
      waits.push(
        evm.api.get(`/v1/jobs/${id}?wait=25`).then(({ ms }) => {
          answered += 1;
          return ms;
        }),
      );
    await evm.api.get("/v1/health");
  }
  await expect.poll(() => answered, { timeout: 15_000 }).toBeGreaterThanOrEqual(100);
  expect(answered).toBe(100);
  const extra = await evm.api.get(`/v1/jobs/${id}?wait=25`);
  expect(extra.ms).toBeLessThan(3_000);
  expect(extra.body).toMatchObject({ id, status: "running" });
  await worker.complete(id, "done");
  await Promise.all(waits);
  expect(answered).toBe(2_100);
});
