import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { settlementOf } from "../pay/envelope.ts";
import type { Fault } from "../facilitator/faults.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, LAB, type Side } from "../support/bench.ts";
import { isReceiptValid } from "../support/receipt.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab(LAB);
});
afterAll(() => lab.stop());
const sides = (process.env.PROBE_SIDE?.split(",") ?? ["evm", "svm"]) as Side[];

describe.each(sides)("probe: facilitator faults on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await new Bench(lab, side).start();
    await bench.join();
    return () => bench.stop();
  });
  beforeEach(() => lab.facilitator.faults.clear());

  const LOST: [string, Fault, boolean][] = [
    ["lost by 500, then the facilitator restarts", { kind: "lost", how: "status" }, true],
    ["lost by a cut, then the facilitator restarts", { kind: "lost", how: "reset" }, true],
    ["lost by hanging", { kind: "lost", how: "hang" }, false],
  ];
  const UNKNOWN: [string, Fault, boolean][] = [
    ["503", { kind: "status", status: 503 }, false],
    ["404", { kind: "status", status: 404 }, false],
    ["{}", { kind: "garbage", body: "{}" }, false],
    ["null", { kind: "garbage", body: "null" }, false],
    ["success as text", { kind: "garbage", body: '{"success":"true","transaction":"0x00","network":"x"}' }, false],
    // On the SVM only the chain can tell what a lost answer said.
    ...(side === "evm" ? LOST : []),
    ["pending", { kind: "pending" }, false],
    ["hang", { kind: "hang" }, false],
    ["slow 12 s", { kind: "slow", ms: 12_000 }, false],
  ];
  it.each(UNKNOWN)(
    "[PY8] settle %s: 201, completed, charged once",
    async (label, fault, forget) => {
      const paid = await bench.pay("cheap");
      const began = Date.now();
      lab.facilitator.faults.add({ operation: "settle", fault, times: 1 });
      const before = await bench.earned();
      const response = await bench.commit("cheap", label, paid.headers());
      const took = Date.now() - began;
      if (forget) lab.facilitator.forget();
      expect(await brief(response)).toBe("201 ");
      if (!["pending", "slow 12 s"].includes(label)) expect(response.headers.has("payment-response")).toBe(false);
      expect(took).toBeLessThan(22_000);
      const id = await idOf(response);
      expect(await idOf(await bench.commit("cheap", label, paid.headers()))).toBe(id);
      const { job, response: poll } = await bench.ended(id, 60);
      expect(job.status, JSON.stringify([job, lab.facilitator.log.calls.slice(-3)])).toBe("completed");
      expect((await bench.earned()) - before).toBe(1_000n);
      const settlement = settlementOf(poll);
      expect(settlement).toMatchObject({ success: true, network: lab[side].network });
      expect(job.receipt?.payment_ref ?? null).toBe(settlement?.transaction || null);
      expect(job.receipt !== null && isReceiptValid(job.receipt)).toBe(true);
    },
    90_000,
  );
});
