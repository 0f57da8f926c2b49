import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { settlementOf } from "../pay/envelope.ts";
import type { Fault } from "../facilitator/faults.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, check402, idOf, isReceiptValid, LAB, type Side } from "./kit.ts";

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

  const REFUSING: [string, Fault][] = [
    ["500", { kind: "status" }],
    ["404", { kind: "status", status: 404 }],
    ["429", { kind: "status", status: 429 }],
    ["401", { kind: "status", status: 401 }],
    ["302", { kind: "status", status: 302 }],
    ["HTML", { kind: "garbage" }],
    ["empty", { kind: "garbage", body: "" }],
    ["null", { kind: "garbage", body: "null" }],
    ["[]", { kind: "garbage", body: "[]" }],
    ["{}", { kind: "garbage", body: "{}" }],
    ["isValid yes", { kind: "garbage", body: '{"isValid":"yes"}' }],
    ["isValid 1", { kind: "garbage", body: '{"isValid":1,"payer":"x"}' }],
    ["cut", { kind: "reset" }],
    ["lost", { kind: "lost" }],
  ];
  it.each(REFUSING)("[PY8] verify %s: 503 with Retry-After, nothing charged, and the same payment works after", async (label, fault) => {
    const paid = await bench.pay("cheap");
    const gained = await bench.earning(async () => {
      lab.facilitator.faults.add({ operation: "verify", fault });
      const response = await bench.commit("cheap", label, paid.headers());
      expect(await brief(response)).toBe("503 facilitator_unavailable");
      expect(response.headers.has("retry-after")).toBe(true);
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
      expect(JSON.parse(await response.text())).toMatchObject({ request_id: expect.any(String) });
      lab.facilitator.faults.clear();
    });
    expect(gained).toBe(0n);
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", label, paid.headers()))))).toBe(1_000n);
  });

  it("[PY8] verify hangs: 503 within 6 s; facilitator down: 503", async () => {
    const paid = await bench.pay("cheap");
    lab.facilitator.faults.add({ operation: "verify", fault: { kind: "hang" } });
    const began = Date.now();
    const gained = await bench.earning(async () => {
      expect(await brief(await bench.commit("cheap", "hang", paid.headers()))).toBe("503 facilitator_unavailable");
      expect(Date.now() - began).toBeLessThan(6_500);
      lab.facilitator.faults.clear();
      await lab.facilitator.down();
      const down = await bench.commit("cheap", "hang", paid.headers());
      expect([await brief(down), down.headers.has("retry-after")]).toEqual(["503 facilitator_unavailable", true]);
      expect((await bench.commit("cheap", "unpaid")).status).toBe(402);
      await lab.facilitator.up();
    });
    expect(gained).toBe(0n);
    expect((await bench.commit("cheap", "hang", paid.headers())).status).toBe(201);
  });

  it("[PY8] slow 2 s at verify and at settle: 201 with the settlement", async () => {
    for (const operation of ["verify", "settle"] as const) {
      lab.facilitator.faults.add({ operation, fault: { kind: "slow", ms: 2_000 }, times: 1 });
      const paid = await bench.pay("fast");
      const gained = await bench.earning(async () => {
        const response = await bench.commit("fast", `slow ${operation}`, paid.headers());
        expect(await brief(response)).toBe("201 ");
        expect(settlementOf(response)).toMatchObject({ success: true });
        await bench.ended(await idOf(response));
      });
      expect(gained, operation).toBe(10_000n);
    }
  });

  it("[PY8] a lying verify does not help a bad signature: refused at settle, 402, worker free again", async () => {
    lab.facilitator.faults.add({ operation: "verify", fault: { kind: "lie" }, times: 1 });
    const bad = await bench.pay("cheap", { wrong: "bad_signature" });
    expect(await bench.earning(async () => check402(await bench.commit("cheap", "lie", bad.headers()), bench, "cheap", "lie"))).toBe(0n);
    expect((await bench.commit("cheap", "after", (await bench.pay("cheap")).headers())).status).toBe(201);
  });

  const UNKNOWN: [string, Fault, boolean][] = [
    ["500", { kind: "status" }, false],
    ["503", { kind: "status", status: 503 }, false],
    ["404", { kind: "status", status: 404 }, false],
    ["HTML", { kind: "garbage" }, false],
    ["{}", { kind: "garbage", body: "{}" }, false],
    ["null", { kind: "garbage", body: "null" }, false],
    ["success without transaction", { kind: "garbage", body: '{"success":true}' }, false],
    ["success as text", { kind: "garbage", body: '{"success":"true","transaction":"0x00","network":"x"}' }, false],
    ["cut", { kind: "reset" }, false],
    ["lost by 500", { kind: "lost", how: "status" }, false],
    ["lost by 500, then the facilitator restarts", { kind: "lost", how: "status" }, true],
    ["lost by a cut, then the facilitator restarts", { kind: "lost", how: "reset" }, true],
    ["pending", { kind: "pending" }, false],
    ["hang", { kind: "hang" }, false],
    ["lost by hanging", { kind: "lost", how: "hang" }, false],
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
      console.log(side, "settle", label, await brief(response), "settlement", settlementOf(response)?.transaction?.slice(0, 8), took, "ms");
      expect(await brief(response)).toBe("201 ");
      if (!["pending", "slow 12 s"].includes(label)) expect(response.headers.has("payment-response")).toBe(false);
      expect(took).toBeLessThan(22_000);
      const id = await idOf(response);
      expect(await idOf(await bench.commit("cheap", label, paid.headers()))).toBe(id);
      const { job, response: poll } = await bench.ended(id, 60);
      expect(
        job.status,
        JSON.stringify([
          job,
          (await bench.earned()) - before === 0n ? "uncharged" : "charged",
          bench.workers.map((worker) => [worker.closed, worker.frames.slice(-4)]),
          lab.facilitator.log.calls.slice(-3),
        ]),
      ).toBe("completed");
      expect((await bench.earned()) - before).toBe(1_000n);
      const settlement = settlementOf(poll);
      console.log(side, "settle", label, "ended after", Date.now() - began, "ms, settlement", JSON.stringify(settlement), "ref", job.receipt?.payment_ref);
      expect.soft(settlement).toMatchObject({ success: true, network: lab[side].network });
      expect.soft(job.receipt?.payment_ref ?? null).toBe(settlement?.transaction || null);
      expect(job.receipt !== null && isReceiptValid(job.receipt)).toBe(true);
    },
    90_000,
  );

  it("[PY8] already used is no settlement where no settle of ours ended unknown", async () => {
    const reason = side === "evm" ? "invalid_exact_evm_nonce_already_used" : "duplicate_settlement";
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason }, times: 1 });
    const paid = await bench.pay("cheap");
    const gained = await bench.earning(async () => {
      const response = await bench.commit("cheap", "used elsewhere", paid.headers());
      await check402(response, bench, "cheap", reason);
    });
    expect(gained).toBe(0n);
  });

  it("[PY8] the worker is free while a settlement is unknown", async () => {
    const first = await bench.pay("cheap");
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status" }, payer: first.payer });
    const id = await idOf(await bench.commit("cheap", "stuck", first.headers()));
    const second = await idOf(await bench.commit("cheap", "free", (await bench.pay("cheap")).headers()));
    expect((await bench.ended(second)).job.status).toBe("completed");
    expect((await bench.job(id)).job).toMatchObject({ status: "pending", result: null });
    const again = await bench.commit("cheap", "stuck", first.headers());
    expect([await idOf(again), again.headers.has("payment-response")]).toEqual([id, false]);
    lab.facilitator.faults.clear();
    expect((await bench.ended(id)).job.status).toBe("completed");
  }, 60_000);
});
