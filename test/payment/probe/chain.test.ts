import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { until } from "../../support/until.ts";
import { settlementOf } from "../pay/envelope.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, LAB, type Side } from "../support/bench.ts";
import { rowsOf } from "../support/books.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab(LAB);
});
afterAll(() => lab.stop());

/** Longer than what a signed payment lives: 45 s on the EVM, two minutes on the SVM. */
const PATIENCE_MS = 200_000;

const NEVER: [Side, string][] = [
  ["evm", "that nobody ever settles"],
  ["svm", "that nobody ever settles"],
  ["svm", "that a node has taken, and that never lands,"],
];
it.concurrent.each(NEVER)(
  "[PY8] on %s a payment %s is void by the chain's own clock, and its job fails",
  { timeout: PATIENCE_MS + 30_000 },
  async (side, how) => {
    const isSent = how.includes("never lands");
    const bench = await new Bench(lab, side, { [`${side.toUpperCase()}_RPC_URL`]: lab[side].rpcUrl }).start();
    try {
      await bench.join();
      const paid = await bench.pay("cheap", { who: isSent ? 1 : 0, ...(side === "evm" && { validFor: 45 }) });
      if (isSent) lab.svm.pause();
      else lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status" }, payer: paid.payer });
      const response = await bench.commit("cheap", "never", paid.headers());
      expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
      if (isSent) expect(lab.svm.waiting()).toBe(1);
      const id = await idOf(response);
      const look = async () => {
        await delay(1_000);
        // Otherwise no block is newer than the payment.
        await lab.evm.finalize();
        try {
          return rowsOf(bench.state).find(({ job_id, state }) => job_id === id && state === "void");
        } catch {
          // The database is being created, or written.
          return undefined;
        }
      };
      expect(await until("void", look, undefined, PATIENCE_MS)).toMatchObject({ reason: "by_chain" });
      expect((await bench.job(id)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
    } finally {
      await bench.stop();
    }
  },
);
