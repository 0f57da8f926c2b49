import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { settlementOf } from "../pay/envelope.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, check402, idOf, LAB, type Side } from "./kit.ts";

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
    console.log(
      side,
      "six held of one payer",
      await Promise.all(answers.map(brief)),
      answers.map((answer) => answer.headers.get("retry-after")),
    );
    expect(answers.slice(0, 4).map(({ status }) => status)).toEqual([201, 201, 201, 201]);
    for (const answer of answers.slice(4)) {
      expect(answer.status).not.toBe(201);
      expect(answer.status < 500 || answer.headers.has("retry-after")).toBe(true);
      if (answer.status === 402) await check402(answer, bench, "cheap", "fifth");
    }
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
    const replay = await bench.commit("fast", "alone", single.headers());
    console.log(side, "same payment after its window ended:", await brief(replay));
    expect([201, 402]).toContain(replay.status);
    if (replay.status === 402) await check402(replay, bench, "fast", "replay");
    await delay(1_000);
    console.log(
      side,
      "after replay: earned",
      (await bench.earned()) - before,
      replay.status === 201 ? JSON.stringify((await bench.job(await idOf(replay))).job) : "",
    );
    // Both slots are free again, and so is the payer.
    const after = await bench.earned();
    await bench.ended(await idOf(await bench.commit("cheap", "new", (await bench.pay("cheap", { who })).headers())));
    expect((await bench.earned()) - after).toBe(1_000n);
  }, 110_000);

  it("[PY7] six payments of one payer with workers at hand are six jobs", async () => {
    await bench.join(6);
    const who = bench.payer();
    const paid = await Promise.all(Array.from({ length: 6 }, () => bench.pay("cheap", { who })));
    const before = await bench.earned();
    const answers = await Promise.all(paid.map((payment, n) => bench.commit("cheap", `six ${n}`, payment.headers())));
    console.log(side, "six at once of one payer", await Promise.all(answers.map(brief)));
    for (const answer of answers) expect(answer.status < 500 || answer.headers.has("retry-after")).toBe(true);
    const good = answers.filter(({ status }) => status === 201);
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
    console.log(side, "emptied: settlement", JSON.stringify(settlementOf(response)));
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
    console.log(side, "unknown ended after", Date.now() - began, "ms", JSON.stringify(job.result), "settles", bench.settles());
    expect(job).toMatchObject({ status: "failed", result: { error: "payment_failed" }, receipt: null });
    lab.facilitator.faults.clear();
    await delay(3_000);
    expect(await bench.earned()).toBe(before);
  }, 190_000);
});
