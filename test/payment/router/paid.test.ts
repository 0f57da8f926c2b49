import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { settlementOf } from "../pay/envelope.ts";
import type { Payment } from "../pay/pay.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, brief, idOf, PRICE } from "../support/bench.ts";
import { isAtRest } from "../support/books.ts";
import { check402 } from "../support/check-402.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("paid commits on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    return () => giveBack(bench);
  });
  beforeEach(async () => {
    lab.facilitator.faults.clear();
    await bench.leave();
    await bench.join();
  });

  const times = <T>(count: number, make: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => make(n));

  it.each([
    ["fast", "v2", "PAYMENT-SIGNATURE"],
    ["cheap", "v2", "X-PAYMENT"],
    ["cheap", "v1", "X-PAYMENT"],
    ["fast", "v1", "PAYMENT-SIGNATURE"],
  ] as const)("[PY1] [PY3] [PY4] %s, envelope %s in %s: 201, settled, completed, and exactly the price moved", async (tier, envelope, header) => {
    const gained = await bench.earning(async () => {
      const response = await bench.commit(tier, `paid ${envelope}`, (await bench.pay(tier, { envelope })).headers(header));
      expect(await brief(response)).toBe("201 ");
      const settlement = settlementOf(response);
      expect(settlement).toMatchObject({ success: true, network: lab[side].network });
      expect(response.headers.get("x-payment-response")).toBe(response.headers.get("payment-response"));
      const { job, response: poll } = await bench.ended(await idOf(response));
      expect(job).toMatchObject({ status: "completed", receipt: { payment_ref: settlement?.transaction } });
      expect(settlementOf(poll)).toMatchObject({ transaction: settlement?.transaction });
    });
    expect(gained).toBe(PRICE[tier]);
  });

  it("[PY6] nine parallel uses with one body are one job and one charge; another body or endpoint is refused, before and after its end", async () => {
    const paid = await bench.pay("cheap");
    const refused = async () => {
      expect(await brief(await bench.commit("cheap", "another", paid.headers()))).toBe("402 payment_already_used");
      expect((await bench.commit("fast", "same", paid.headers())).status).toBe(402);
    };
    const gained = await bench.earning(async () => {
      const answers = await Promise.all(times(9, () => bench.commit("cheap", "same", paid.headers())));
      expect(await Promise.all(answers.map(brief))).toEqual(times(9, () => "201 "));
      const ids = await Promise.all(answers.map(idOf));
      expect(new Set(ids).size).toBe(1);
      await refused();
      await bench.ended(String(ids[0]));
      await refused();
      expect(await idOf(await bench.commit("cheap", "same", paid.headers()))).toBe(ids[0]);
    });
    expect(gained).toBe(1_000n);
  });

  it("[PY6] nine parallel uses with nine bodies: one wins, nobody is charged twice", async () => {
    const paid = await bench.pay("cheap");
    const gained = await bench.earning(async () => {
      const answers = await Promise.all(times(9, (n) => bench.commit("cheap", `body ${n}`, paid.headers())));
      expect((await Promise.all(answers.map(brief))).toSorted()).toEqual(["201 ", ...times(8, () => "402 payment_already_used")]);
      await bench.ended(await idOf(answers.find(({ status }) => status === 201) ?? expect.unreachable()));
    });
    expect(gained).toBe(1_000n);
  });

  /** Sends each payment with a body of its own until it is taken or refused for good, as a payer does: a 503 says that the same may be sent again. */
  async function insist(payments: readonly Payment[], label: string): Promise<Response[]> {
    const answers: Response[] = [];
    let unavailable = 0;
    let open = [...payments.keys()];
    while (open.length > 0) {
      const round = await Promise.all(open.map((n) => bench.commit("cheap", `${label} ${n}`, payments[n]?.headers())));
      for (const [at, answer] of round.entries()) {
        if (answer.status !== 503) answers[open[at] ?? -1] = answer;
        else if ((await brief(answer)) === "503 facilitator_unavailable") unavailable++;
        else expect([await brief(answer), answer.headers.get("retry-after")]).toEqual(["503 too_many_held_payments", "5"]);
      }
      open = open.filter((n) => answers[n] === undefined);
    }
    if (unavailable > 0) expect(await bench.unverified(payments[0] ?? expect.unreachable())).toBe(unavailable);
    return answers;
  }

  it("[PY9] twenty parallel payments of one payer: what is refused as too many is good again, and twenty jobs have cost twenty prices", async () => {
    await bench.join(3);
    const who = bench.payer();
    const paid = await Promise.all(times(20, () => bench.pay("cheap", { who })));
    const before = await bench.purse(who);
    const ids = await Promise.all((await insist(paid, "of one")).map(idOf));
    expect(new Set(ids).size).toBe(20);
    for (const id of ids) expect((await bench.ended(id)).job.status).toBe("completed");
    expect(before - (await bench.purse(who))).toBe(20_000n);
  });

  it("[PY3] a payment for cheap does not buy fast, and still buys cheap", async () => {
    const cheap = await bench.pay("cheap");
    expect(await bench.earning(async () => check402(await bench.commit("fast", "cheat", cheap.headers()), bench, "fast"))).toBe(0n);
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "fair", cheap.headers()))))).toBe(1_000n);
  });

  it("[PY5] bad bodies and PRIVATE without a worker are not charged, and the same payment still works", async () => {
    const paid = await bench.pay("cheap");
    const free = await bench.earning(async () => {
      expect((await bench.post("cheap", "{}", paid.headers())).status).toBe(400);
      expect((await bench.post("cheap", bench.body("x".repeat(600_000)), paid.headers())).status).toBe(413);
      expect(await brief(await bench.commit("cheap", "secret", paid.headers(), { privacy_class: "PRIVATE" }))).toBe("422 no_trusted_worker");
    });
    expect(free).toBe(0n);
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "now", paid.headers()))))).toBe(1_000n);
  });

  it("[PY6] [PY7] a refused settlement is 402 with the reason; its payment is used up, its worker is free, nothing was charged", async () => {
    // The worker could be at a job of an earlier test, or the fault could meet its payment.
    expect(await isAtRest(bench)).toBe(true);
    const paid = await bench.pay("cheap");
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason: "insufficient_funds" }, times: 1 });
    const gained = await bench.earning(async () => {
      const response = await bench.commit("cheap", "refused", paid.headers());
      expect((await check402(response, bench, "cheap")).error).toBe("payment_failed: insufficient_funds");
      expect(settlementOf(response)).toMatchObject({ success: false });
      for (const text of ["refused", "another"]) expect(await brief(await bench.commit("cheap", text, paid.headers()))).toBe("402 payment_already_used");
    });
    expect(gained).toBe(0n);
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "refused", (await bench.pay("cheap")).headers()))))).toBe(1_000n);
  });

  it("[PY7] without a worker the payment is held: 201 without a settlement, and settled when a worker comes", async () => {
    await bench.leave();
    const before = await bench.earned();
    const response = await bench.commit("cheap", "held", (await bench.pay("cheap")).headers());
    expect(await brief(response)).toBe("201 ");
    expect(response.headers.has("payment-response")).toBe(false);
    expect(await bench.earned()).toBe(before);
    await bench.join();
    const { job, response: poll } = await bench.ended(await idOf(response));
    expect(job.status).toBe("completed");
    expect(settlementOf(poll)).toMatchObject({ success: true });
    expect((await bench.earned()) - before).toBe(1_000n);
  });

  it("[PY9] a job that fails after its settlement is a credit: the same payload starts one more, once, and nobody pays again", async () => {
    const gained = await bench.earning(async () => {
      const { id, paid } = await bench.makeCredit("cheap", bench.payer(), "credit");
      await bench.join();
      const again = await Promise.all(times(3, () => bench.commit("cheap", "credit", paid.headers())));
      const seconds = new Set(await Promise.all(again.map(idOf)));
      expect(seconds.size).toBe(1);
      const [second = ""] = seconds;
      expect(second).not.toBe(id);
      expect((await bench.ended(second)).job.status).toBe("completed");
      expect(await idOf(await bench.commit("cheap", "credit", paid.headers()))).toBe(second);
      expect(await brief(await bench.commit("cheap", "other", paid.headers()))).toBe("402 payment_already_used");
    });
    expect(gained).toBe(1_000n);
  });

  // The last one: some of its payments may stay in doubt, and are settled again during whatever comes next.
  it("[PY7] [PY9] six parallel payments on a purse that has enough for three: three jobs are paid and done, three are not", async () => {
    await bench.join(3);
    const { poor } = lab[side];
    const short = (await bench.purse("poor")) % 1_000n;
    if (side === "evm") await lab.evm.mint(lab.evm.poor.address, 3_000n);
    else await lab.svm.mint(lab.svm.poor.address, 3_000n);
    expect(await bench.purse("poor"), poor.address).toBe(3_000n + short);
    const paid = await Promise.all(times(6, () => bench.pay("cheap", { who: "poor" })));
    const gained = await bench.earning(async () => {
      const answers = await insist(paid, "on a small purse");
      // One that waited for a worker was answered before its settlement was refused.
      const ends = await Promise.all(answers.map(async (answer) => (answer.status === 402 ? null : (await bench.ended(await idOf(answer))).job)));
      expect(ends.filter((job) => job?.status === "completed")).toHaveLength(3);
      for (const job of ends) if (job?.status === "failed") expect(job.result).toEqual({ error: "payment_failed" });
    });
    expect([gained, await bench.purse("poor")]).toEqual([3_000n, short]);
  });
});
