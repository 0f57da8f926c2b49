import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { settlementOf } from "../pay/envelope.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, LAB, type Side } from "../support/bench.ts";
import { check402 } from "../support/check-402.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab({ ...LAB, svm: { ...LAB.svm, blockhashTtlMs: 90_000 } });
});
afterAll(() => lab.stop());
const sides = (process.env.PROBE_SIDE?.split(",") ?? ["evm", "svm"]) as Side[];

describe.each(sides)("probe: held payments on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await new Bench(lab, side).start();
    return () => bench.stop();
  });
  beforeEach(async () => {
    lab.facilitator.faults.clear();
    await bench.leave();
  });

  it("[PY7] [PY9] a window that ends without a worker: no_eligible_worker, never settled, also when a worker comes; at most 4 held per payer", async () => {
    const who = bench.payer();
    lab.facilitator.log.clear();
    const before = await bench.earned();
    const single = await bench.pay("fast");
    const ids = [await idOf(await bench.commit("fast", "alone", single.headers()))];
    const answers: Response[] = [];
    for (let n = 0; n < 6; n++) {
      const response = await bench.commit("cheap", `held ${n}`, (await bench.pay("cheap", { who })).headers());
      answers.push(response);
      if (response.status === 201) ids.push(await idOf(response));
    }
    expect(answers.slice(0, 4).map(({ status }) => status)).toEqual([201, 201, 201, 201]);
    for (const answer of answers.slice(4)) expect([await brief(answer), answer.headers.get("retry-after")]).toEqual(["503 too_many_held_payments", "5"]);
    // Another payer is not limited by it.
    ids.push(await idOf(await bench.commit("cheap", "another", (await bench.pay("cheap")).headers())));
    const ends = await Promise.all(ids.map((id) => bench.ended(id, 45)));
    for (const { job, response } of ends) {
      expect(job).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" }, receipt: null, completed_at: null });
      expect(response.headers.has("payment-response")).toBe(false);
    }
    await bench.join(3);
    await delay(6_000);
    expect(bench.settles()).toBe(0);
    expect(await bench.earned()).toBe(before);
    // The same request is still the same job; for another one its payment is used up.
    expect(await idOf(await bench.commit("fast", "alone", single.headers()))).toBe(ids[0]);
    const other = await bench.commit("fast", "another", single.headers());
    expect((await check402(other, bench, "fast", "another")).error).toBe("payment_already_used");
    expect(await bench.earned()).toBe(before);
    // Both slots are free again, and so is the payer.
    const after = await bench.earned();
    await bench.ended(await idOf(await bench.commit("cheap", "new", (await bench.pay("cheap", { who })).headers())));
    expect((await bench.earned()) - after).toBe(1_000n);
  }, 110_000);

  it("[PY7] of six payments of one payer with workers at hand at least four are jobs at once", async () => {
    await bench.join(6);
    const who = bench.payer();
    const paid = await Promise.all(Array.from({ length: 6 }, () => bench.pay("cheap", { who })));
    const before = await bench.earned();
    const answers = await Promise.all(paid.map((payment, n) => bench.commit("cheap", `six ${n}`, payment.headers())));
    for (const answer of answers) if (answer.status !== 201) expect(await brief(answer)).toBe("503 too_many_held_payments");
    const good = answers.filter(({ status }) => status === 201);
    expect(good.length).toBeGreaterThanOrEqual(4);
    for (const answer of good) await bench.ended(await idOf(answer));
    expect((await bench.earned()) - before).toBe(BigInt(good.length) * 1_000n);
    const one = await bench.commit("cheap", "six more", (await bench.pay("cheap", { who })).headers());
    expect(one.status).toBe(201);
    await bench.ended(await idOf(one));
  }, 60_000);

  it("[PY7] held, and the payer's purse is emptied before a worker comes: payment_failed, uncharged, the worker is free", async () => {
    const who = bench.payer();
    const id = await idOf(await bench.commit("cheap", "emptied", (await bench.pay("cheap", { who })).headers()));
    const before = await bench.earned();
    if (side === "evm") {
      const payer = lab.evm.payers[who];
      if (payer !== undefined) await lab.evm.transfer(payer, lab.evm.outsider.address, await lab.evm.balanceOf(payer.address));
    } else {
      const payer = lab.svm.payers[who];
      if (payer !== undefined) await lab.svm.transfer(payer, lab.svm.outsider.address, await lab.svm.balanceOf(payer.address));
    }
    await bench.join();
    const { job, response } = await bench.ended(id);
    expect(job).toMatchObject({ status: "failed", result: { error: "payment_failed" }, receipt: null });
    expect(settlementOf(response)?.success ?? false).toBe(false);
    expect(await bench.earned()).toBe(before);
    expect((await bench.ended(await idOf(await bench.commit("cheap", "next", (await bench.pay("cheap")).headers())))).job.status).toBe("completed");
  }, 60_000);

  it("[PY7] held, first settle unknown: completed and charged once", async () => {
    const before = await bench.earned();
    const id = await idOf(await bench.commit("cheap", "held unknown", (await bench.pay("cheap")).headers()));
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "lost", how: "status" }, times: 1 });
    await bench.join();
    const { job, response } = await bench.ended(id);
    expect(job.status).toBe("completed");
    expect(settlementOf(response)).toMatchObject({ success: true });
    expect((await bench.earned()) - before).toBe(1_000n);
  }, 60_000);

  it("[PY8] settle unknown until the authorization has expired: payment_failed, nothing charged", async () => {
    await bench.join();
    const before = await bench.earned();
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status" } });
    const began = Date.now();
    const paid = await bench.pay("cheap", side === "evm" ? { validFor: 50 } : {});
    const id = await idOf(await bench.commit("cheap", "never known", paid.headers()));
    const { job } = await bench.ended(id, 175);
    expect(Date.now() - began).toBeLessThan(side === "evm" ? 60_000 : 130_000);
    expect(job).toMatchObject({ status: "failed", result: { error: "payment_failed" }, receipt: null });
    lab.facilitator.faults.clear();
    await delay(3_000);
    expect(await bench.earned()).toBe(before);
  }, 190_000);
});
