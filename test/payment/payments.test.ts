import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { balanceOf } from "./pay/pay.ts";
import { WRONGS } from "./pay/wrongs.ts";
import { type FullLab, startLab } from "./start-lab.ts";
import { type Side, Till } from "./support/till.ts";

const SIDES: readonly Side[] = ["evm", "svm"];

let lab: FullLab;
let till: Till;

beforeAll(async () => {
  lab = await startLab();
  till = new Till(lab);
});

afterAll(() => lab.stop());

function payee(side: Side): Promise<bigint> {
  return balanceOf(lab[side], lab[side].payTo);
}

describe.each(SIDES)("a right payment on the %s", (side) => {
  it.each(["v1", "v2"] as const)("[PY3] settles, whichever envelope it came in: %s", async (envelope) => {
    const challenge = till.ask(side);
    const payment = await lab.pay(challenge, { envelope });
    const before = await payee(side);

    expect(JSON.parse(Buffer.from(payment.value, "base64").toString())).toEqual(payment.message);
    expect(payment.message.x402Version).toBe(envelope === "v1" ? 1 : 2);
    expect(await till.verify(payment, challenge)).toMatchObject({ isValid: true, payer: payment.payer });
    expect(await payee(side)).toBe(before);
    expect(await till.settle(payment, challenge)).toMatchObject({ success: true, payer: payment.payer, network: lab[side].network });
    expect(await payee(side)).toBe(before + 1_000n);
  });

  it("[PY6] moves money once: settled again, it is refused", async () => {
    const challenge = till.ask(side);
    const payment = await lab.pay(challenge);
    await till.settle(payment, challenge);
    const before = await payee(side);

    expect(await till.verify(payment, challenge)).toMatchObject({ isValid: false });
    const again = await till.settle(payment, challenge);
    expect(again).toMatchObject({ success: false, errorReason: side === "evm" ? "invalid_exact_evm_nonce_already_used" : "duplicate_settlement" });
    expect(await payee(side)).toBe(before);
  });

  it("[PY6] settled twice at once, it moves money once", async () => {
    const challenge = till.ask(side);
    const payment = await lab.pay(challenge);
    const before = await payee(side);
    const results = await Promise.all([till.settle(payment, challenge), till.settle(payment, challenge)]);
    expect(results.filter(({ success }) => success)).toHaveLength(1);
    expect(await payee(side)).toBe(before + 1_000n);
  });

  it("[PY7] 20 at once of different payers settle", async () => {
    const before = await payee(side);
    const results = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const challenge = till.ask(side);
        return till.settle(await lab.pay(challenge, { who: index % 8 }), challenge);
      }),
    );
    expect(results.every(({ success }) => success)).toBe(true);
    expect(await payee(side)).toBe(before + 20_000n);
  });

  it("[PY7] whose payer empties the account after verify does not settle", async () => {
    const challenge = till.ask(side, { amount: "50000000" });
    const payment = await lab.pay(challenge, { who: 7 });
    expect(await till.verify(payment, challenge)).toMatchObject({ isValid: true });
    if (side === "evm") await lab.evm.transfer(lab.evm.payers[7]!, lab.evm.outsider.address, 60_000_000n);
    else await lab.svm.transfer(lab.svm.payers[7]!, lab.svm.outsider.address, 60_000_000n);
    const before = await payee(side);
    expect(await till.settle(payment, challenge)).toMatchObject({ success: false });
    expect(await payee(side)).toBe(before);
  });
});

/** What x402's own facilitator finds; null: it has nothing against it, or the payee finds it before (PY3). */
const FINDINGS: Record<Side, Record<string, RegExp | null>> = {
  evm: {
    amount: /value_mismatch/,
    forged_amount: /value_mismatch/,
    too_much: /value_mismatch/,
    other_tier: /value_mismatch/,
    forged_other_tier: /value_mismatch/,
    pay_to: /recipient_mismatch/,
    forged_pay_to: /recipient_mismatch/,
    asset: /signature/,
    forged_asset: /signature/,
    scheme: null,
    network: /signature/,
    forged_network: /signature/,
    domain: /signature/,
    bad_signature: /signature/,
    other_signer: /signature/,
    poor_payer: /insufficient_balance/,
    expired: /valid_before/,
    expiring: null,
    not_yet_valid: /valid_after/,
  },
  svm: {
    amount: /amount_mismatch/,
    forged_amount: /amount_mismatch/,
    too_much: /amount_mismatch/,
    other_tier: /amount_mismatch/,
    forged_other_tier: /amount_mismatch/,
    pay_to: /recipient_mismatch/,
    forged_pay_to: /recipient_mismatch/,
    asset: /mint_mismatch/,
    forged_asset: /mint_mismatch/,
    scheme: null,
    network: null,
    fee_payer: /./,
    forged_fee_payer: /./,
    bad_signature: /signature/,
    poor_payer: /simulation_failed/,
    expired: /simulation_failed/,
  },
};

describe.each(SIDES)("wrong payments on the %s", (side) => {
  it("are all examined here", () => {
    expect(Object.keys(FINDINGS[side]).sort()).toEqual(Object.keys(WRONGS[side]).sort());
  });

  it.each(Object.keys(WRONGS[side]))("[PY3] %s", async (wrong) => {
    const challenge = till.ask(side, { amount: "10000" });
    const payment = await lab.pay(challenge, { wrong: wrong as never });
    const right = JSON.stringify(challenge.requirement);
    const before = await payee(side);

    const finding = FINDINGS[side][wrong];
    const verified = await till.verify(payment, challenge);
    if (finding == null) expect(verified).toMatchObject({ isValid: true });
    else {
      expect(verified.isValid).toBe(false);
      expect(verified.invalidReason).toMatch(finding);
      expect(await till.settle(payment, challenge)).toMatchObject({ success: false });
      expect(await payee(side)).toBe(before);
    }
    // What the envelope says differs exactly where the name promises that one can see it.
    const claimed = JSON.stringify(payment.message.accepted);
    const hidden =
      wrong.startsWith("forged_") || ["bad_signature", "other_signer", "poor_payer", "expired", "expiring", "not_yet_valid", "domain"].includes(wrong);
    expect(claimed === right).toBe(hidden);
  });
});

describe("expiry", () => {
  it("[PY8] an SVM payment dies with its blockhash, verified or not", async () => {
    const challenge = till.ask("svm");
    const payment = await lab.pay(challenge);
    expect(await till.verify(payment, challenge)).toMatchObject({ isValid: true });
    lab.svm.expireBlockhashes();
    const before = await payee("svm");
    expect(await till.settle(payment, challenge)).toMatchObject({ success: false, errorReason: expect.stringContaining("simulation_failed") });
    expect(await payee("svm")).toBe(before);
    const next = till.ask("svm");
    expect(await till.settle(await lab.pay(next), next)).toMatchObject({ success: true });
  });

  it("[PY8] an EVM payment that its payer cancelled says `already used`, though nothing was paid", async () => {
    const challenge = till.ask("evm");
    const payment = await lab.pay(challenge);
    const { authorization } = payment.payload as { authorization: { nonce: `0x${string}` } };
    await lab.evm.cancel(lab.evm.payers[0]!, authorization.nonce);
    const before = await payee("evm");
    expect(await till.settle(payment, challenge)).toMatchObject({ success: false, errorReason: "invalid_exact_evm_nonce_already_used" });
    expect(await payee("evm")).toBe(before);
  });

  it("[PY11] an SVM payee without a token account cannot be paid", async () => {
    const challenge = till.ask("svm", { payTo: lab.svm.stranger.address });
    expect(await till.verify(await lab.pay(challenge), challenge)).toMatchObject({
      isValid: false,
      invalidReason: expect.stringContaining("simulation_failed"),
    });
  });

  it("[PY11] any of the facilitator's fee payers will do", async () => {
    for (const { address } of lab.svm.feePayers) {
      const challenge = till.ask("svm", { extra: { feePayer: address } });
      expect(await till.settle(await lab.pay(challenge), challenge)).toMatchObject({ success: true });
    }
  });
});
