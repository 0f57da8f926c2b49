// What old facilitators, a chain that stalls, and payers who take an authorization back do to the money: none is lost, and nothing is free [PY8].
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { until } from "../../support/until.ts";
import type { Fault } from "../facilitator/faults.ts";
import { FACILITATOR_VERSIONS, type FacilitatorVersion } from "../facilitator/schemes.ts";
import type { EvmPayload } from "../pay/evm.ts";
import { settlementOf } from "../pay/envelope.ts";
import type { Payment } from "../pay/pay.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, SMALL_LAB, type Side } from "../support/bench.ts";
import { balancedBooks, expectBooks, orderInDatabase, rowsOf } from "../support/books.ts";

/** How long a settle call waits for its receipt. */
const WAIT_MS = 3_000;

/** What has become of a payment and its job when the transfer came after the facilitator had said that it does not know, and was asked again. */
const LATE: Record<Side, Record<FacilitatorVersion, string>> = {
  evm: { "2.27": "spent completed", "2.20": "unresolved already_used failed payment_failed", "2.3": "unknown pending" },
  svm: { "2.27": "spent completed", "2.20": "unknown failed payment_failed", "2.3": "unknown failed payment_failed" },
};
/** The same of a payment whose authorization the payer has cancelled or used for something else in the meantime. */
const TAKEN_BACK: Record<FacilitatorVersion, string> = {
  "2.27": "unresolved already_used failed payment_failed",
  "2.20": "unresolved already_used failed payment_failed",
  "2.3": "unknown pending",
};

// One lab and one coordinator on each chain for all of it: the facilitator is started again on other versions. The oldest is the last one, because its doubts
// stay open, and a newer facilitator would end them.
let lab: FullLab;
let benches: Record<Side, Bench>;
beforeAll(async () => {
  lab = await startLab({ ...SMALL_LAB, facilitator: { confirmationTimeoutMs: WAIT_MS } });
  const [evm, svm] = await Promise.all([new Bench(lab, "evm").start({ cronMs: 1_000 }), new Bench(lab, "svm").start({ cronMs: 1_000 })]);
  benches = { evm, svm };
  return async () => {
    await Promise.all([evm.stop(), svm.stop()]);
    await lab.stop();
  };
});

/** The settle calls of a payer. */
const settles = ({ payer: by }: Payment) =>
  lab.facilitator.log.calls.filter(({ operation, payer }) => operation === "settle" && payer?.toLowerCase() === by.toLowerCase());

describe("answers of a facilitator on evm", () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = benches.evm;
    await bench.join(6);
    return () => bench.leave();
  });

  const NOT_ASKED: [string, Fault][] = [401, 403, 404, 429].map((status) => [String(status), { kind: "status", status }]);
  it("[PY8] 401, 403, 404 and 429 at settle are no doubt: 201, and the job runs when the question is taken; charged once", async () => {
    const before = await balancedBooks(bench);
    const one = async ([label, fault]: [string, Fault]): Promise<void> => {
      const paid = await bench.pay("cheap");
      lab.facilitator.faults.add({ operation: "settle", fault, payer: paid.payer, times: 1 });
      const response = await bench.commit("cheap", label, paid.headers());
      expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
      const { job, response: poll } = await bench.ended(await idOf(response));
      expect([job.status, settlementOf(poll)?.success]).toEqual(["completed", true]);
    };
    await Promise.all(NOT_ASKED.map(one));
    await expectBooks(bench, { ...before, completed: before.completed + NOT_ASKED.length });
  });
});

describe("the doubt of a payment on evm", () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = benches.evm;
    await bench.join(2);
    return () => bench.leave();
  });

  it("[PY8] a settlement that was refused as used, though nothing of ours was lost, waits for the operator; what he finds is the payer's credit", async () => {
    const before = await balancedBooks(bench);
    const who = bench.payer();
    const paid = await bench.pay("cheap", { who });
    // The transfer is sent, the answer does not say so, and the next answer is `nonce_already_used`.
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "pending" }, payer: paid.payer, times: 1 });
    const committing = bench.commit("cheap", "in doubt", paid.headers());
    await until("settle call", () => settles(paid).find(({ ms }) => ms !== null));
    // A facilitator that was started again knows nothing of the transfer that it has sent.
    lab.facilitator.forget();
    const id = await idOf(await committing);
    expect((await bench.ended(id)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
    await expectBooks(bench, { ...before, doubts: before.doubts + 1 });
    await orderInDatabase(bench, id, "credit");
    await until("credit", () => rowsOf(bench.state).find((row) => row.job_id === id && row.state === "credit"));
    await expectBooks(bench, { ...before, credits: before.credits + 1 });
    const free = await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "bought", (await bench.pay("cheap", { who })).headers()))));
    expect(free).toBe(0n);
    await expectBooks(bench, { ...before, completed: before.completed + 1 });
  });

  it("[PY8] without the chain's word a lost answer and a cancelled authorization are one assumed settlement, told in the books", async () => {
    const before = await balancedBooks(bench);
    const who = bench.payer();
    const paid = await bench.pay("cheap", { who });
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status" }, payer: paid.payer, times: 1 });
    const id = await idOf(await bench.commit("cheap", "assumed", paid.headers()));
    await lab.evm.cancel(lab.evm.payers[who]!, nonceOf(paid));
    expect((await bench.ended(id)).job.status).toBe("completed");
    await expectBooks(bench, { ...before, assumed: before.assumed + 1 });
  });
});

describe.each(FACILITATOR_VERSIONS)("a facilitator on x402 %s", (version) => {
  beforeAll(() => lab.facilitator.forget(version));

  describe.each(["evm", "svm"] as const)("on %s", (side) => {
    let bench: Bench;
    beforeEach(async () => {
      bench = benches[side];
      lab.facilitator.faults.clear();
      if (bench.workers.length === 0) await bench.join(2);
    });

    /** What has become of a payment and its job once the job has ended, or the facilitator has been asked `calls` times and D1 has what it said. */
    function outcome(paid: Payment, id: string, calls: number): Promise<string> {
      const look = async (): Promise<string | undefined> => {
        // These are seconds, and a look costs a request and a database.
        await delay(100);
        // The job after the payment: what ends both is written at once, and D1 is told later.
        const row = rowsOf(bench.state).find((known) => known.job_id === id);
        const { job } = await bench.job(id);
        if (row === undefined) return undefined;
        const said = settles(paid).filter(({ at, ms }) => ms !== null && row.updated_at >= Math.floor(Date.parse(at) + ms));
        const isEnd = ["completed", "failed"].includes(job.status) || said.length >= calls;
        if (!isEnd || ["held", "settling", "settled"].includes(row.state)) return undefined;
        return [row.state, row.reason, job.status, job.status === "failed" ? job.result?.error : null].filter((word) => word != null).join(" ");
      };
      return until("outcome", look, () => JSON.stringify([rowsOf(bench.state).slice(-3), settles(paid)]));
    }

    /** Commits with a payment whose transfer comes after its settle call has ended without an answer about it. */
    async function commitLate(paid: Payment, text: string): Promise<Response> {
      if (side === "svm") {
        lab.facilitator.faults.add({ operation: "settle", fault: { kind: "pending" }, payer: paid.payer, times: 1 });
        return await bench.commit("cheap", text, paid.headers());
      }
      await lab.evm.pause();
      try {
        return await bench.commit("cheap", text, paid.headers());
      } finally {
        await lab.evm.resume();
      }
    }

    it("[PY8] the wait for the chain ends before the transfer comes: one 201, one job, no second 402, and the money is in the books", async () => {
      const before = await balancedBooks(bench);
      const paid = await bench.pay("cheap");
      const response = await commitLate(paid, "late");
      expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
      const id = await idOf(response);
      expect(await outcome(paid, id, 2)).toBe(LATE[side][version]);
      expect(await idOf(await bench.commit("cheap", "late", paid.headers()))).toBe(id);
      const isSpent = LATE[side][version].startsWith("spent");
      await expectBooks(bench, { ...before, ...(isSpent ? { completed: before.completed + 1 } : { doubts: before.doubts + 1 }) });
    });

    if (side === "evm") {
      it("[PY7] the chain stalls before the answer and goes on in time: 201 with the settlement", async () => {
        const before = await balancedBooks(bench);
        const paid = await bench.pay("cheap");
        await lab.evm.pause();
        const committing = bench.commit("cheap", "stalled", paid.headers());
        await until("transfer that waits", async () => ((await lab.evm.pending()) > 0 ? true : undefined)).finally(() => lab.evm.resume());
        expect(settlementOf(await committing)).toMatchObject({ success: true });
        expect(await outcome(paid, await idOf(await committing), 1)).toBe("spent completed");
        await expectBooks(bench, { ...before, completed: before.completed + 1 });
      });

      // Using the nonce for something else is the same to the hub; what only the chain tells apart is in chain.test.ts.
      it("[PY8] a payer who cancels the authorization while a settlement is in doubt gets nothing for it", async () => {
        const before = await balancedBooks(bench);
        const who = bench.payer();
        const paid = await bench.pay("cheap", { who });
        lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason: "transaction_failed" }, payer: paid.payer, times: 1 });
        const id = await idOf(await bench.commit("cheap", "cancelled in doubt", paid.headers()));
        await lab.evm.cancel(lab.evm.payers[who]!, nonceOf(paid));
        expect(await outcome(paid, id, 2)).toBe(TAKEN_BACK[version]);
        await expectBooks(bench, before);
      });

      it("[PY8] a payer who cancels the authorization while the payment is held gets nothing for it", async () => {
        const before = await balancedBooks(bench);
        await bench.leave();
        const who = bench.payer();
        const paid = await bench.pay("cheap", { who });
        const id = await idOf(await bench.commit("cheap", "cancelled while held", paid.headers()));
        await lab.evm.cancel(lab.evm.payers[who]!, nonceOf(paid));
        await bench.join(2);
        expect(await outcome(paid, id, 1)).toBe(TAKEN_BACK[version]);
        await expectBooks(bench, before);
      });
    }
  });
});

function nonceOf({ payload }: Payment): `0x${string}` {
  return (payload as EvmPayload).authorization.nonce;
}
