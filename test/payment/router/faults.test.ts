import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Fault } from "../facilitator/faults.ts";
import { settlementOf } from "../pay/envelope.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, brief, idOf } from "../support/bench.ts";
import { check402 } from "../support/check-402.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("a facilitator that fails, on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    // As many as settlements may be under way, and more: each fault meets a worker.
    await bench.join(12);
    return () => giveBack(bench);
  });

  /** What a payer has lost by `what`: others pay at the same time. */
  async function paidBy(who: number, what: () => Promise<unknown>): Promise<bigint> {
    const before = await bench.purse(who);
    await what();
    return before - (await bench.purse(who));
  }

  // Each fault is its own payer's, so all of them can be waited for at once.
  describe.concurrent("towards one payer each", () => {
    // Every answer that is none is in unit/payment/facilitator; that nothing runs after one, in conformance/attacks/payment-gate.
    const [label, fault]: [string, Fault] = side === "evm" ? ["lost", { kind: "lost" }] : ["hanging", { kind: "hang" }];
    it(`[PY8] verify ${label}: 503 with Retry-After, never 402, nothing charged; the same payment is good afterwards`, async () => {
      const who = bench.payer();
      const paid = await bench.pay("cheap", { who });
      lab.facilitator.faults.add({ operation: "verify", fault, payer: paid.payer, times: 1 });
      const free = await paidBy(who, async () => {
        const response = await bench.commit("cheap", `verify ${label}`, paid.headers());
        expect([await brief(response), response.headers.has("retry-after")]).toEqual(["503 facilitator_unavailable", true]);
        expect(response.headers.get("access-control-allow-origin")).toBe("*");
        expect(await response.json()).toMatchObject({ request_id: expect.any(String) });
      });
      const price = await paidBy(who, async () => bench.ended(await idOf(await bench.commit("cheap", `verify ${label}`, paid.headers()))));
      expect([free, price]).toEqual([0n, 1_000n]);
    });

    const AT_SETTLE: [string, Fault][] = [
      ["500", { kind: "status" }],
      ["garbage", { kind: "garbage" }],
      ["success without a transaction", { kind: "garbage", body: '{"success":true}' }],
      ["cut", { kind: "reset" }],
    ];
    const LOST: typeof AT_SETTLE = [
      ["lost by a cut after the chain moved", { kind: "lost", how: "reset" }],
      ["lost by a 500 after the chain moved", { kind: "lost", how: "status" }],
    ];
    // To the hub these answers are the same on both chains: the svm has one of them.
    const cases = side === "evm" ? [...AT_SETTLE, ...LOST] : LOST.slice(0, 1);
    it.each(cases)("[PY8] settle %s: 201 without a settlement, one job, which runs once it is known; charged once", async (label, fault) => {
      const who = bench.payer();
      const paid = await bench.pay("cheap", { who });
      lab.facilitator.faults.add({ operation: "settle", fault, payer: paid.payer, times: 1 });
      const price = await paidBy(who, async () => {
        const response = await bench.commit("cheap", label, paid.headers());
        expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
        const id = await idOf(response);
        expect(await idOf(await bench.commit("cheap", label, paid.headers()))).toBe(id);
        const { job, response: poll } = await bench.ended(id);
        expect(job.status).toBe("completed");
        expect(settlementOf(poll)).toMatchObject({ success: true });
      });
      expect(price).toBe(1_000n);
    });

    if (side === "svm") return;
    it.each(["verify", "settle"] as const)("[PY8] %s slow by 2 s: 201 with the settlement, charged once", async (operation) => {
      const who = bench.payer();
      const paid = await bench.pay("fast", { who });
      lab.facilitator.faults.add({ operation, fault: { kind: "slow", ms: 2_000 }, payer: paid.payer, times: 1 });
      const price = await paidBy(who, async () => {
        const response = await bench.commit("fast", `slow ${operation}`, paid.headers());
        expect(await brief(response)).toBe("201 ");
        expect((await bench.ended(await idOf(response))).job.status).toBe("completed");
      });
      expect(price).toBe(10_000n);
    });
  });

  describe("towards all", () => {
    beforeEach(() => lab.facilitator.faults.clear());

    it("[PY8] [PY12] down: 402 without a payment as ever, 503 with one; the same payment is good when it is back", async () => {
      const paid = await bench.pay("cheap");
      await lab.facilitator.down();
      const free = await bench.earning(async () => {
        expect((await bench.commit("cheap", "unpaid")).status).toBe(402);
        expect(await brief(await bench.commit("cheap", "down", paid.headers()))).toBe("503 facilitator_unavailable");
      });
      await lab.facilitator.up();
      expect(free).toBe(0n);
      expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "down", paid.headers()))))).toBe(1_000n);
    });

    if (side === "svm") return;
    it("[PY8] a lying verify does not help a bad signature: refused at settle, nothing charged, the worker is free again", async () => {
      lab.facilitator.faults.add({ operation: "verify", fault: { kind: "lie" }, times: 1 });
      const bad = await bench.pay("cheap", { wrong: "bad_signature" });
      expect(await bench.earning(async () => expect((await bench.commit("cheap", "lie", bad.headers())).status).toBe(402))).toBe(0n);
      const good = await bench.pay("cheap");
      expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "truth", good.headers()))))).toBe(1_000n);
    });

    it("[PY8] already used is no settlement where no settle of ours ended unknown", async () => {
      const reason = "invalid_exact_evm_nonce_already_used";
      lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason }, times: 1 });
      const paid = await bench.pay("cheap");
      expect(await bench.earning(async () => check402(await bench.commit("cheap", "used elsewhere", paid.headers()), bench, "cheap", reason))).toBe(0n);
    });

    it("[PY8] the worker is free while a settlement is unknown, and the same payment is not settled by another request", async () => {
      await bench.leave();
      await bench.join();
      const first = await bench.pay("cheap");
      lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status" }, payer: first.payer });
      const gained = await bench.earning(async () => {
        const id = await idOf(await bench.commit("cheap", "stuck", first.headers()));
        const second = await idOf(await bench.commit("cheap", "free", (await bench.pay("cheap")).headers()));
        expect((await bench.ended(second)).job.status).toBe("completed");
        expect((await bench.job(id)).job).toMatchObject({ status: "pending", result: null });
        const again = await bench.commit("cheap", "stuck", first.headers());
        expect([await idOf(again), again.headers.has("payment-response")]).toEqual([id, false]);
        lab.facilitator.faults.clear();
        expect((await bench.ended(id)).job.status).toBe("completed");
      });
      expect(gained).toBe(2_000n);
    });
  });
});
