import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { until } from "../../support/until.ts";
import type { FaultRule } from "../facilitator/faults.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, LAB, type Side } from "./kit.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab(LAB);
});
afterAll(() => lab.stop());
const sides = (process.env.PROBE_SIDE?.split(",") ?? ["evm", "svm"]) as Side[];

type Moment = { name: string; fault?: FaultRule; after: number; on: "verify" | "settle" | "settled" | "sent" };
const once = (operation: "verify" | "settle", fault: FaultRule["fault"]): FaultRule => ({ operation, fault, times: 1 });
const MOMENTS: Moment[] = [
  { name: "during verify", fault: once("verify", { kind: "slow", ms: 1_500 }), on: "verify", after: 100 },
  { name: "during settle, which then happens", fault: once("settle", { kind: "slow", ms: 1_500 }), on: "settle", after: 100 },
  { name: "during settle, which never happens", fault: once("settle", { kind: "hang" }), on: "settle", after: 100 },
  { name: "after the money moved, before the answer", fault: once("settle", { kind: "lost", how: "hang" }), on: "settle", after: 600 },
  { name: "as the settlement is answered", on: "settled", after: 0 },
  { name: "10 ms after the settlement", on: "settled", after: 10 },
  { name: "40 ms after the settlement", on: "settled", after: 40 },
  { name: "10 ms after the request", on: "sent", after: 10 },
  { name: "while a settle is unknown", fault: { operation: "settle", fault: { kind: "status" } }, on: "settled", after: 1_500 },
];

describe.each(sides)("probe: kills on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await new Bench(lab, side).start();
    return () => bench.stop();
  });
  beforeEach(() => lab.facilitator.faults.clear());

  it.each(MOMENTS)(
    "[PY6] [PY8] [JB9] SIGKILL $name: the same payment again is one job, completed, charged once",
    async ({ fault, after, on, name }) => {
      if (bench.workers.length === 0) await bench.join();
      const paid = await bench.pay("cheap");
      const began = Date.now();
      const before = await bench.earned();
      lab.facilitator.log.clear();
      if (fault !== undefined) lab.facilitator.faults.add(fault);
      const first = bench.commit("cheap", name, paid.headers()).then(brief, () => "cut");
      if (on !== "sent") {
        const operation = on === "verify" ? "verify" : "settle";
        await until(operation, async () => lab.facilitator.log.calls.find((call) => call.operation === operation && (on !== "settled" || call.ms !== null)));
      }
      await delay(after);
      await bench.kill();
      const answered = await first;
      lab.facilitator.faults.clear();
      await bench.start();
      await bench.join();
      const again = await bench.commit("cheap", name, paid.headers());
      if (again.status !== 201) console.log(JSON.stringify(lab.facilitator.log.calls, null, 1), "signed", Date.now() - began, "ms ago");
      console.log(side, name, "first:", answered, "again:", await brief(again));
      expect(await brief(again)).toBe("201 ");
      const id = await idOf(again);
      expect(await idOf(await bench.commit("cheap", name, paid.headers()))).toBe(id);
      const { job } = await bench.ended(id, 90);
      expect(job.status, JSON.stringify(job)).toBe("completed");
      expect(await idOf(await bench.commit("cheap", name, paid.headers()))).toBe(id);
      const other = await bench.commit("cheap", `${name} other`, paid.headers());
      expect(other.status).toBe(402);
      await delay(1_000);
      expect((await bench.earned()) - before).toBe(1_000n);
    },
    150_000,
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
    console.log(
      side,
      "held over a kill",
      ends.map(({ job }) => `${job.status} ${JSON.stringify(job.result)}`),
    );
    expect(ends.map(({ job }) => job.status)).toEqual(["completed", "completed", "completed"]);
    expect((await bench.earned()) - before).toBe(3_000n);
  }, 120_000);

  it("[PY9] a credit survives a kill", async () => {
    const who = bench.payer();
    await bench.makeCredit("cheap", who, "credit over a kill");
    await bench.kill();
    await bench.start();
    await bench.join();
    const before = await bench.earned();
    await bench.ended(await idOf(await bench.commit("cheap", "spends it", (await bench.pay("cheap", { who })).headers())));
    expect(await bench.earned()).toBe(before);
  }, 90_000);
});
