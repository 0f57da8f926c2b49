import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Call } from "../facilitator/call-log.ts";
import { settlementOf } from "../pay/envelope.ts";
import type { Payment } from "../pay/pay.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, brief, idOf, isPayerOf } from "../support/bench.ts";
import { check402 } from "../support/check-402.ts";
import { isReceiptValid } from "../support/receipt.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("whose money moves on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    return () => giveBack(bench);
  });
  beforeEach(async () => {
    lab.facilitator.faults.clear();
    await bench.leave();
  });

  const many = (count: number, tier: "cheap" | "fast" = "cheap") => Promise.all(Array.from({ length: count }, () => bench.pay(tier)));

  /** The calls that settle these payments: one for each, and again only after one whose caller has left, as a busy machine makes it. */
  function settlesOf(paid: readonly Payment[]): Call[] {
    return paid.flatMap((payment) => {
      const calls = lab.facilitator.log.calls.filter((call) => call.operation === "settle" && isPayerOf(payment, call));
      expect(calls.map(({ ended }) => ended).filter((ended) => ended !== "left")).toEqual(["answered"]);
      return calls;
    });
  }

  function mostAtOnce(calls: readonly Call[]): number {
    const marks = calls
      .flatMap(({ at, ms }) => [
        { t: Date.parse(at), by: 1 },
        { t: Date.parse(at) + (ms ?? 0) - 2, by: -1 },
      ])
      .toSorted((a, b) => a.t - b.t || a.by - b.by);
    let [now, most] = [0, 0];
    for (const { by } of marks) most = Math.max(most, (now += by));
    return most;
  }

  it.each(side === "evm" ? [[20], [3]] : [[20]])(
    "[PY7] 20 parallel different payments, %i workers: all 201, all completed, exact balances, and as many settlements at once as workers are kept",
    async (workers) => {
      await bench.join(workers);
      const payers = Array.from({ length: 20 }, () => bench.payer());
      const paid = await Promise.all(payers.map((who) => bench.pay("cheap", { who })));
      const purses = () => Promise.all(payers.map((who) => bench.purse(who)));
      const before = await purses();
      lab.facilitator.log.clear();
      lab.facilitator.faults.add({ operation: "settle", fault: { kind: "slow", ms: 300 } });
      const gained = await bench.earning(async () => {
        const answers = await Promise.all(paid.map((payment, n) => bench.commitPatiently("cheap", `parallel ${n}`, payment)));
        expect(await Promise.all(answers.map(brief))).toEqual(Array.from({ length: 20 }, () => "201 "));
        const ids = await Promise.all(answers.map(idOf));
        expect(new Set(ids).size).toBe(20);
        const jobs = await Promise.all(ids.map((id) => bench.ended(id, 60)));
        expect(jobs.map(({ job }) => job.status)).toEqual(Array.from({ length: 20 }, () => "completed"));
        expect(new Set(jobs.map(({ job }) => job.receipt?.payment_ref)).size).toBe(20);
      });
      expect(gained).toBe(20_000n);
      const after = await purses();
      expect(before.map((purse, n) => purse - (after[n] ?? 0n))).toEqual(Array.from({ length: 20 }, () => 1_000n));
      const settles = settlesOf(paid);
      expect(mostAtOnce(settles)).toBeLessThanOrEqual(workers);
      // No settlement waits for another one while a worker is free.
      expect(mostAtOnce(settles)).toBeGreaterThan(workers / 2);
    },
    90_000,
  );

  it("[PY10] [API7] GET job: settlement header, exposed, no-store; receipt has payment_ref and verifies with null", async () => {
    await bench.join();
    const response = await bench.commit("fast", "receipt", (await bench.pay("fast")).headers(), { job_type: "LLM_INFER", payload: { prompt: "hi" } });
    const { job, response: poll } = await bench.ended(await idOf(response));
    const settlement = settlementOf(response);
    expect(poll.headers.get("payment-response")).toBe(response.headers.get("payment-response"));
    expect(poll.headers.get("cache-control")).toContain("no-store");
    expect(poll.headers.get("access-control-expose-headers")?.toLowerCase()).toContain("payment-response");
    expect(job.receipt?.payment_ref).toBe(settlement?.transaction);
    expect(job.receipt !== null && isReceiptValid(job.receipt)).toBe(true);
    expect(response.headers.get("cache-control")).toMatch(/no-store|private/);
    expect(Object.keys(JSON.parse(await response.text()) as object)).toEqual(["job_id"]);
  });

  // Keys, waits, credits and privacy have nothing to do with the chain; paid.test.ts and cancel.test.ts have credits on both.
  if (side === "svm") return;

  it("[API5] Idempotency-Key: one charge whatever the payment; another body is 409; 402 is not stored", async () => {
    await bench.join(4);
    const [one, two, three] = await many(3);
    const key = (value: string, payment?: { headers(): Record<string, string> }) => ({ "Idempotency-Key": value, ...payment?.headers() });
    const gained = await bench.earning(async () => {
      await check402(await bench.commit("cheap", "i", key("k1")), bench, "cheap", "no payment");
      await check402(await bench.commit("cheap", "i", { ...key("k1"), "X-PAYMENT": "garbage" }), bench, "cheap", "garbage");
      const first = await idOf(await bench.commit("cheap", "i", key("k1", one)));
      expect(await idOf(await bench.commit("cheap", "i", key("k1", one)))).toBe(first);
      expect(await idOf(await bench.commit("cheap", "i", key("k1", two)))).toBe(first);
      expect(await idOf(await bench.commit("cheap", "i", { ...key("k1"), "X-PAYMENT": "garbage" }))).toBe(first);
      const none = await bench.commit("cheap", "i", key("k1"));
      expect(none.status).toBe(402);
      expect(await brief(await bench.commit("cheap", "other", key("k1", three)))).toBe("409 idempotency_key_reused");
      expect(await brief(await bench.commit("fast", "i", key("k1", three)))).toBe("409 idempotency_key_reused");
      await bench.ended(first);
    });
    expect(gained).toBe(1_000n);
    // The payments that were not needed still buy something.
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "two", two?.headers()))))).toBe(1_000n);
    const five = await many(5);
    const parallel = await bench.earning(async () => {
      const answers = await Promise.all(five.map((payment) => bench.commit("cheap", "p", key("k2", payment))));
      expect(await Promise.all(answers.map(brief))).toEqual(Array.from({ length: 5 }, () => "201 "));
      const ids = new Set(await Promise.all(answers.map(idOf)));
      expect(ids.size).toBe(1);
      for (const id of ids) await bench.ended(id);
    });
    expect(parallel).toBe(1_000n);
    // Same payment under another key: the same job.
    const paid = await bench.pay("cheap");
    const a = await idOf(await bench.commit("cheap", "q", key("k3", paid)));
    expect(await idOf(await bench.commit("cheap", "q", key("k4", paid)))).toBe(a);
  }, 60_000);

  it("[API5] a refused settlement under an Idempotency-Key is not stored: the key works with the next payment", async () => {
    await bench.join();
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse" }, times: 1 });
    const refused = await bench.commit("cheap", "r", { "Idempotency-Key": "r1", ...(await bench.pay("cheap")).headers() });
    expect(refused.status).toBe(402);
    const gained = await bench.earning(async () =>
      bench.ended(await idOf(await bench.commit("cheap", "r", { "Idempotency-Key": "r1", ...(await bench.pay("cheap")).headers() }))),
    );
    expect(gained).toBe(1_000n);
  });

  it("[API6] [PY4] Prefer: wait with a payment", async () => {
    await bench.join();
    const done = await bench.commit("cheap", "w", { Prefer: "wait=10", ...(await bench.pay("cheap")).headers() });
    expect([done.status, done.headers.get("preference-applied")]).toEqual([201, "wait=10"]);
    expect(settlementOf(done)).toMatchObject({ success: true });
    const body = JSON.parse(await done.text()) as { job: { status: string; receipt: { payment_ref: string } } };
    expect(body.job.status).toBe("completed");
    expect(body.job.receipt.payment_ref).toBe(settlementOf(done)?.transaction);
    await bench.leave();
    const held = await bench.pay("cheap");
    const gained = await bench.earning(async () => {
      const response = await bench.commit("cheap", "held", { Prefer: "wait=1", ...held.headers() });
      expect(response.status).toBe(201);
      expect(response.headers.has("payment-response")).toBe(false);
      expect(await response.json()).toMatchObject({ job: { status: "pending" } });
    });
    expect(gained).toBe(0n);
    const waiting = bench.commit("cheap", "waits", { Prefer: "wait=15", ...(await bench.pay("cheap")).headers() });
    await delay(1_000);
    await bench.join(2);
    const answered = await waiting;
    expect(await answered.clone().json()).toMatchObject({ job: { status: "completed" } });
    expect(settlementOf(answered), "success carries PAYMENT-RESPONSE").toMatchObject({ success: true });
    const again = await bench.commit("cheap", "waits", { Prefer: "wait=1", ...(await bench.pay("cheap", { wrong: "bad_signature" })).headers() });
    await check402(again, bench, "cheap", "prefer with a bad payment");
  }, 60_000);

  it("[PY9] a credit is spent by a fresh payment of the same payer, once, and not again by the old payload", async () => {
    const [who, other] = [bench.payer(), bench.payer()];
    const { id, paid } = await bench.makeCredit("cheap", who, "lost work");
    await bench.join(2);
    expect(
      await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "of another", (await bench.pay("cheap", { who: other })).headers())))),
    ).toBe(1_000n);
    const fresh = await bench.pay("cheap", { who });
    const settles = bench.settles();
    const free = await bench.earning(async () => {
      const response = await bench.commit("cheap", "new work", fresh.headers());
      const spent = await idOf(response);
      const { job, response: poll } = await bench.ended(spent);
      expect(job.status).toBe("completed");
      expect(settlementOf(response)).toMatchObject({ success: true, transaction: job.receipt?.payment_ref });
      expect(settlementOf(poll)).toEqual(settlementOf(response));
      expect(job.receipt !== null && isReceiptValid(job.receipt)).toBe(true);
      expect(await idOf(await bench.commit("cheap", "new work", fresh.headers()))).toBe(spent);
      expect((await bench.commit("cheap", "newer work", fresh.headers())).status).toBe(402);
    });
    expect(free).toBe(0n);
    expect(bench.settles()).toBe(settles);
    // Its own request may come again only while the balance covers it.
    expect(await brief(await bench.commit("cheap", "lost work", paid.headers()))).toBe("402 payment_already_used");
    expect(settlementOf((await bench.ended(id)).response)).toMatchObject({ extensions: { credit: { amount: "1000", balance: "0" } } });
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "third", (await bench.pay("cheap", { who })).headers()))))).toBe(
      1_000n,
    );
  }, 60_000);

  it("[PY9] a cheap credit does not buy fast and stays; a fast credit buys ten cheap jobs, not one", async () => {
    const [poorer, richer] = [bench.payer(), bench.payer()];
    await bench.makeCredit("cheap", poorer, "c");
    await bench.makeCredit("fast", richer, "f");
    await bench.join(2);
    expect(
      await bench.earning(async () => bench.ended(await idOf(await bench.commit("fast", "f1", (await bench.pay("fast", { who: poorer })).headers())))),
    ).toBe(10_000n);
    expect(
      await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "c1", (await bench.pay("cheap", { who: poorer })).headers())))),
    ).toBe(0n);
    const buy = async (n: number): Promise<Response> => {
      const response = await bench.commit("cheap", `c2 ${n}`, (await bench.pay("cheap", { who: richer })).headers());
      await bench.ended(await idOf(response));
      return response;
    };
    for (let n = 1; n <= 10; n++) {
      let response: Response | undefined;
      expect(await bench.earning(async () => (response = await buy(n)))).toBe(0n);
      expect(response && settlementOf(response)).toMatchObject({ extensions: { credit: { amount: "1000", balance: String(10_000 - n * 1_000) } } });
    }
    expect(await bench.earning(async () => buy(11))).toBe(1_000n);
  }, 60_000);

  it("[PY9] the old payload and fresh payments in parallel spend one credit once", async () => {
    const who = bench.payer();
    const { id, paid } = await bench.makeCredit("cheap", who, "race");
    await bench.join(6);
    const fresh = await Promise.all([1, 2, 3].map(() => bench.pay("cheap", { who })));
    const ids = new Set<string>();
    const gained = await bench.earning(async () => {
      const answers = await Promise.all([
        ...Array.from({ length: 3 }, () => bench.commit("cheap", "race", paid.headers())),
        ...fresh.map((payment, n) => bench.commit("cheap", `fresh ${n}`, payment.headers())),
      ]);
      // If a fresh payment was first, the balance does not cover the old one.
      for (const answer of answers) if (answer.status !== 402) ids.add(await idOf(answer));
      ids.delete(id);
      for (const one of ids) expect((await bench.ended(one)).job.status).toBe("completed");
    });
    expect(gained).toBe(BigInt(ids.size - 1) * 1_000n);
    expect(ids.size).toBeGreaterThanOrEqual(3);
  }, 60_000);

  it("[PY9] a credit payment must be verified: a bad signature in the payer's name spends nothing", async () => {
    const who = bench.payer();
    await bench.makeCredit("cheap", who, "mine");
    await bench.join();
    await check402(await bench.commit("cheap", "stolen", (await bench.pay("cheap", { who, wrong: "bad_signature" })).headers()), bench, "cheap", "stolen");
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "own", (await bench.pay("cheap", { who })).headers()))))).toBe(
      0n,
    );
  }, 60_000);

  it("[PY5] [JB8] PRIVATE and paid: 422 uncharged, paired 201 and charged once, busy paired waits unsettled", async () => {
    const user_id = `private-${side}`;
    const worker = await bench.join(1, false);
    const paid = await bench.pay("cheap");
    const gained = await bench.earning(async () => {
      const refused = await bench.commit("cheap", "p", paid.headers(), { user_id, privacy_class: "PRIVATE" });
      expect(await brief(refused)).toBe("422 no_trusted_worker");
      const { job_id } = JSON.parse(await refused.text()) as { job_id: string };
      expect((await bench.job(job_id)).job).toMatchObject({ status: "failed", result: { error: "no_trusted_worker" } });
    });
    expect(gained).toBe(0n);
    const post = (path: string, body: object) => fetch(`${bench.url}${path}`, { method: "POST", body: JSON.stringify(body) });
    const { pairing_code } = (await (await post("/v1/trust/create", { user_id })).json()) as { pairing_code: string };
    expect((await post("/v1/trust/claim", { pairing_code, provider_pubkey: worker.publicKey })).status).toBe(200);
    const before = await bench.earned();
    const first = await idOf(await bench.commit("cheap", "p", paid.headers(), { user_id, privacy_class: "PRIVATE" }));
    await worker.assigned(first);
    expect((await bench.earned()) - before).toBe(1_000n);
    const waits = await bench.commit("cheap", "p2", (await bench.pay("cheap")).headers(), { user_id, privacy_class: "PRIVATE" });
    expect([waits.status, waits.headers.has("payment-response")]).toEqual([201, false]);
    expect((await bench.earned()) - before).toBe(1_000n);
    worker.complete(first, { summary: "s", word_count: 1 });
    const second = await idOf(waits);
    await worker.assigned(second);
    worker.complete(second, { summary: "s", word_count: 1 });
    expect((await bench.ended(second)).job.status).toBe("completed");
    expect((await bench.earned()) - before).toBe(2_000n);
  }, 60_000);
});
