import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, idOf, LAB, type Side } from "../support/bench.ts";
import { expectNothingLost, MORE_MOMENTS } from "../support/kills.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab(LAB);
});
afterAll(() => lab.stop());
const sides = (process.env.PROBE_SIDE?.split(",") ?? ["evm", "svm"]) as Side[];

describe.each(sides)("probe: kills on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await new Bench(lab, side).start();
    return () => bench.stop();
  });
  beforeEach(() => lab.facilitator.faults.clear());

  it.each(MORE_MOMENTS)(
    "[PY6] [PY8] [JB9] SIGKILL $name: the same payment again is one job, completed, charged once",
    { timeout: 150_000 },
    async (moment) => await expectNothingLost(bench, moment),
  );

  it("[PY7] [JB9] killed while 3 payments are held: each job ends, each charged at most once, and only when completed", async () => {
    await bench.leave();
    const paid = await Promise.all([1, 2, 3].map(() => bench.pay("cheap")));
    const before = await bench.earned();
    const ids = await Promise.all(paid.map(async (payment, n) => idOf(await bench.commit("cheap", `held ${n}`, payment.headers()))));
    await bench.kill();
    await bench.start();
    expect(await idOf(await bench.commit("cheap", "held 0", paid[0]?.headers()))).toBe(ids[0]);
    await bench.join();
    const ends = await Promise.all(ids.map((id) => bench.ended(id, 60)));
    expect(ends.map(({ job }) => job.status)).toEqual(["completed", "completed", "completed"]);
    expect((await bench.earned()) - before).toBe(3_000n);
  }, 120_000);
});
