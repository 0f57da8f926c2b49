import { setTimeout as delay } from "node:timers/promises";
import type { PrivateKeyAccount } from "viem/accounts";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { until } from "../../support/until.ts";
import type { Fault } from "../facilitator/faults.ts";
import { FACILITATOR_VERSIONS } from "../facilitator/schemes.ts";
import { settlementOf } from "../pay/envelope.ts";
import { type EvmPayload, signEvm } from "../pay/evm.ts";
import type { Payment } from "../pay/pay.ts";
import { challengeOf } from "../pay/challenge.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, SMALL_LAB } from "../support/bench.ts";
import { rowsOf } from "../support/books.ts";

/** How many jobs its workers were given. */
const assigned = ({ workers }: Bench): number => workers.flatMap(({ frames }) => frames).filter(({ type }) => type === "job_assign").length;

const USED = { kind: "refuse", reason: "invalid_exact_evm_nonce_already_used" } as const;

describe("money that moved is found on the EVM", () => {
  let lab: FullLab;
  let bench: Bench;
  beforeAll(async () => {
    lab = await startLab(SMALL_LAB);
    bench = await new Bench(lab, "evm", { EVM_RPC_URL: lab.evm.rpcUrl }).start();
  });
  afterAll(async () => {
    await bench.stop();
    await lab.stop();
  });
  beforeEach(async () => {
    lab.facilitator.faults.clear();
    await bench.leave();
    await bench.join();
  });

  const payer = (who: number): PrivateKeyAccount => lab.evm.payers[who] as PrivateKeyAccount;
  const evm = ({ payload }: Payment): EvmPayload => payload as EvmPayload;

  /** A payment of a new payer. The first settle call ends like this, and all later ones say nothing. */
  async function doubtful(first: Fault, then: Fault = { kind: "status" }): Promise<{ who: number; paid: Payment }> {
    const who = bench.payer();
    const paid = await bench.pay("cheap", { who });
    lab.facilitator.faults.add({ operation: "settle", fault: first, payer: paid.payer, times: 1 });
    lab.facilitator.faults.add({ operation: "settle", fault: then, payer: paid.payer });
    return { who, paid };
  }

  /** The job is accepted, and nobody knows whether it is paid. */
  async function accepted(text: string, paid: Payment): Promise<string> {
    const response = await bench.commit("cheap", text, paid.headers());
    expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
    return idOf(response);
  }

  const LOST: [string, Fault][] = [
    ["is cut after the transfer", { kind: "lost", how: "reset" }],
    ["is a 500 after the transfer", { kind: "lost", how: "status" }],
    ["is `settlement_pending`", { kind: "pending" }],
  ];
  it.each(LOST)(
    "[PY8] an answer that %s: the job runs, paid by the transaction that the chain shows, though the facilitator never says so",
    async (text, fault) => {
      const { paid } = await doubtful(fault);
      const gained = await bench.earning(async () => {
        const id = await accepted(text, paid);
        await lab.evm.finalize();
        const { job, response } = await bench.ended(id);
        expect(job.status).toBe("completed");
        const settlement = settlementOf(response);
        expect(settlement).toMatchObject({ success: true, payer: paid.payer.toLowerCase() });
        expect(job.receipt?.payment_ref).toBe(settlement?.transaction);
        const receipt = await lab.evm.clients.public.getTransactionReceipt({ hash: settlement?.transaction as `0x${string}` });
        expect(receipt).toMatchObject({ status: "success", from: lab.evm.facilitator.address.toLowerCase() });
        expect(await idOf(await bench.commit("cheap", text, paid.headers()))).toBe(id);
      });
      expect(gained).toBe(1_000n);
    },
  );

  const CANCELS: [string, Fault, Fault][] = [
    ["and the facilitator says nothing", { kind: "status" }, { kind: "status" }],
    ["and the facilitator says that it is used", { kind: "reset" }, USED],
  ];
  it.each(CANCELS)("[PY8] a payer who cancels in the doubt, %s: no job, nothing moves, and the payment is used up", async (text, first, then) => {
    const { who, paid } = await doubtful(first, then);
    const gained = await bench.earning(async () => {
      const id = await accepted(`cancelled ${text}`, paid);
      await lab.evm.cancel(payer(who), evm(paid).authorization.nonce);
      await lab.evm.finalize();
      expect((await bench.ended(id)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
      expect(await brief(await bench.commit("cheap", "anything else", paid.headers()))).toBe("402 payment_already_used");
      expect(await idOf(await bench.commit("cheap", `cancelled ${text}`, paid.headers()))).toBe(id);
    });
    expect(gained).toBe(0n);
    expect(assigned(bench)).toBe(0);
  });

  const ELSEWHERE: [string, (bench: Bench) => Partial<EvmPayload["authorization"]>][] = [
    ["to somebody else", () => ({ to: lab.evm.outsider.address })],
    ["to us, and less", () => ({ value: "999" })],
  ];
  it.each(ELSEWHERE)("[PY8] a payer who spends the nonce %s: no free job", async (text, changes) => {
    const { who, paid } = await doubtful({ kind: "reset" }, USED);
    const { requirement } = await challengeOf(await bench.commit("cheap", "first"));
    const { nonce } = evm(paid).authorization;
    const id = await accepted(`elsewhere ${text}`, paid);
    await lab.evm.submit(payer(who), await signEvm(payer(who), requirement, { ...changes(bench), nonce }));
    await lab.evm.finalize();
    expect((await bench.ended(id)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
    expect(await brief(await bench.commit("cheap", "anything else", paid.headers()))).toBe("402 payment_already_used");
  });

  it("[PY8] what is not final decides nothing", async () => {
    const { who, paid } = await doubtful({ kind: "status" });
    const id = await accepted("not final", paid);
    await lab.evm.cancel(payer(who), evm(paid).authorization.nonce);
    // Longer than the pauses before the next two readings.
    await delay(4_000);
    expect((await bench.job(id)).job.status).toBe("pending");
    await lab.evm.finalize();
    expect((await bench.ended(id)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
  });

  it("[PY8] [PY9] a payer who sends the authorization to the chain while the job waits for a worker: the job fails, and the money is a credit", async () => {
    await bench.leave();
    const who = bench.payer();
    const paid = await bench.pay("cheap", { who });
    const gained = await bench.earning(async () => {
      const id = await accepted("sent by the payer", paid);
      await lab.evm.submit(payer(who), evm(paid));
      await lab.evm.finalize();
      await bench.join();
      expect((await bench.ended(id)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
      const settlement = await until("a credit", async () => settlementOf((await bench.job(id)).response) ?? undefined);
      expect(settlement).toMatchObject({ success: true, extensions: { credit: { amount: "1000", balance: "1000" } } });
    });
    expect(gained).toBe(1_000n);
    const free = await bench.earning(async () =>
      bench.ended(await idOf(await bench.commit("cheap", "for the credit", (await bench.pay("cheap", { who })).headers()))),
    );
    expect(free).toBe(0n);
  });
});

describe("money that moved is found on the SVM", () => {
  let lab: FullLab;
  let bench: Bench;
  beforeAll(async () => {
    lab = await startLab(SMALL_LAB);
    bench = await new Bench(lab, "svm", { SVM_RPC_URL: lab.svm.rpcUrl }).start();
    await bench.join(2);
  });
  afterAll(async () => {
    await bench.stop();
    await lab.stop();
  });
  beforeEach(() => {
    lab.facilitator.faults.clear();
    lab.facilitator.forget("2.27");
  });

  const LOST: [string, Fault][] = [
    ["is cut after the transfer", { kind: "lost", how: "reset" }],
    ["is a 500 after the transfer", { kind: "lost", how: "status" }],
    ["is `settlement_pending`", { kind: "pending" }],
  ];
  it.each(LOST)(
    "[PY8] an answer that %s: the job runs, paid by the transaction that the chain shows, though the facilitator never says so",
    async (text, fault) => {
      const paid = await bench.pay("cheap", { who: bench.payer() });
      lab.facilitator.faults.add({ operation: "settle", fault, times: 1 });
      lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status" } });
      const gained = await bench.earning(async () => {
        const response = await bench.commit("cheap", text, paid.headers());
        expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
        const { job, response: poll } = await bench.ended(await idOf(response));
        expect(job.status).toBe("completed");
        expect(settlementOf(poll)).toMatchObject({ success: true, payer: paid.payer, transaction: job.receipt?.payment_ref });
        expect((await lab.svm.received()).filter(({ transaction }) => transaction === job.receipt?.payment_ref)).toMatchObject([{ amount: 1_000n }]);
      });
      expect(gained).toBe(1_000n);
    },
  );

  it.each(FACILITATOR_VERSIONS)(
    "[PY8] a transaction that fails on the chain, with a facilitator on x402 %s: no free job, and nothing is in doubt",
    async (version) => {
      lab.facilitator.forget(version);
      const who = bench.payer();
      const paid = await bench.pay("cheap", { who });
      const before = await bench.earned();
      const [payer, worked] = [lab.svm.payers[who]!, assigned(bench)];
      lab.svm.pause();
      const committing = bench.commit("cheap", `fails with ${version}`, paid.headers());
      await until("sent transaction", () => (lab.svm.waiting() > 0 ? true : undefined)).finally(async () => {
        // The facilitator has simulated it. Now its payer has the money no more.
        await lab.svm.transfer(payer, lab.svm.outsider.address, await lab.svm.balanceOf(payer.address));
        lab.svm.resume();
      });
      const response = await committing;
      expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
      const id = await idOf(response);
      const { job, response: poll } = await bench.ended(id);
      expect([job.status, job.result?.error, settlementOf(poll)]).toEqual(["failed", "payment_failed", null]);
      expect(assigned(bench)).toBe(worked);
      expect(await bench.earned()).toBe(before);
      expect(await until("row", () => rowsOf(bench.state).find((row) => row.job_id === id && row.state === "void"))).toMatchObject({ reason: "by_chain" });
    },
  );

  it("[PY8] `duplicate_settlement` after a lost answer is not believed, if no transaction is there", async () => {
    const paid = await bench.pay("cheap", { who: bench.payer() });
    lab.facilitator.log.clear();
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "reset" }, times: 1 });
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason: "duplicate_settlement" } });
    const gained = await bench.earning(async () => {
      const id = await idOf(await bench.commit("cheap", "duplicate", paid.headers()));
      await until("two more settle calls", async () => (bench.settles() >= 3 ? true : undefined));
      expect((await bench.job(id)).job.status).toBe("pending");
    });
    expect(gained).toBe(0n);
  });
});
