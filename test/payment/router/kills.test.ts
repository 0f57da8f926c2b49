import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, idOf, SMALL_LAB } from "../support/bench.ts";
import { expectNothingLost, MOMENTS } from "../support/kills.ts";

// Most of the time of both is waiting: a coordinator that was killed asks again about some payments only after 25 s [PY8].
describe.concurrent.each(["evm", "svm"] as const)("SIGKILL of the coordinator on %s", (side) => {
  let lab: FullLab;
  let bench: Bench;
  beforeAll(async () => {
    lab = await startLab(SMALL_LAB);
    bench = await new Bench(lab, side).start();
  });
  afterAll(async () => {
    await bench.stop();
    await lab.stop();
  });

  // What the hub has written before a kill is the same on both chains: the svm has the moment in which its money has moved.
  it.sequential.each(side === "evm" ? MOMENTS : MOMENTS.slice(-1))(
    "[PY6] [PY8] [JB9] $name: the same payment again is one job, completed, charged once",
    { timeout: 150_000 },
    async (moment) => await expectNothingLost(bench, moment),
  );

  it.sequential("[PY6] [PY7] [PY9] [JB9] over a kill a done job is still the same, a held payment is settled when a worker comes, and a credit is spent", async () => {
    const who = bench.payer();
    const gained = await bench.earning(async () => {
      await bench.makeCredit("cheap", who, "credit");
      await bench.join();
      const paid = await bench.pay("cheap");
      const done = await idOf(await bench.commit("cheap", "done", paid.headers()));
      await bench.ended(done);
      await bench.leave();
      const held = await idOf(await bench.commit("cheap", "held", (await bench.pay("cheap")).headers()));
      await bench.kill();
      await bench.start();
      expect(await idOf(await bench.commit("cheap", "done", paid.headers()))).toBe(done);
      await bench.join();
      expect((await bench.ended(held)).job.status).toBe("completed");
      const free = await idOf(await bench.commit("cheap", "for the credit", (await bench.pay("cheap", { who })).headers()));
      expect((await bench.ended(free)).job.status).toBe("completed");
    });
    // What is held, what is done, and what became a credit; not what the credit bought.
    expect(gained).toBe(3_000n);
  });
});
