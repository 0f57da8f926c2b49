// The deliberately wrong payments of the payment lab, by chain.
import { randomBytes } from "node:crypto";
import { getBase58Decoder } from "@solana/kit";
import type { Requirement } from "./challenge.ts";
import type { Authorization } from "./evm.ts";

/** Who pays: a payer with money by number, or one of those who cannot. */
export type Who = number | "poor" | "outsider";

/** One deviation from a right payment. */
export type Deviation = {
  /** What is signed instead. */
  signed?: Partial<Requirement>;
  /** What the envelope says instead. A v1 envelope says only scheme and network. */
  claimed?: Partial<Requirement>;
  /** EVM: what the authorization says instead. */
  authorization?: Partial<Authorization>;
  who?: Who;
  spoilSignature?: true;
};

/** What a deviation may need of the chain that it is for. */
export type Surroundings = { otherToken: string; outsider: string };

type Deviate = (requirement: Requirement, around: Surroundings) => Deviation;

/** The two prices of the product, in millionths of a dollar. */
const TIERS = { cheap: "1000", fast: "10000" } as const;

const honestly = (change: Partial<Requirement>): Deviation => ({ signed: change, claimed: change });
const secondsFromNow = (seconds: number): string => String(Math.floor(Date.now() / 1000) + seconds);
const otherTier = ({ amount }: Requirement): string => (amount === TIERS.fast ? TIERS.cheap : TIERS.fast);
const inside = (requirement: Requirement, extra: Record<string, unknown>): Partial<Requirement> => ({ extra: { ...requirement.extra, ...extra } });

/** Wrong on either chain. `forged_…` says the right terms and signs others; without it, both are wrong in the same way. */
const COMMON = {
  amount: ({ amount }) => honestly({ amount: String(BigInt(amount) / 2n) }),
  forged_amount: () => ({ signed: { amount: "1" } }),
  /** More than is asked: right for nobody, `exact` means exact. */
  too_much: ({ amount }) => honestly({ amount: String(BigInt(amount) + 1n) }),
  other_tier: (requirement) => honestly({ amount: otherTier(requirement) }),
  forged_other_tier: (requirement) => ({ signed: { amount: otherTier(requirement) } }),
  pay_to: (_, { outsider }) => honestly({ payTo: outsider }),
  forged_pay_to: (_, { outsider }) => ({ signed: { payTo: outsider } }),
  asset: (_, { otherToken }) => honestly({ asset: otherToken }),
  forged_asset: (_, { otherToken }) => ({ signed: { asset: otherToken } }),
  scheme: () => ({ claimed: { scheme: "upto" } }),
  bad_signature: () => ({ spoilSignature: true }),
  /** Has less than the price. */
  poor_payer: () => ({ who: "poor" }),
} satisfies Record<string, Deviate>;

const EVM = {
  ...COMMON,
  network: () => honestly({ network: "eip155:1" }),
  forged_network: () => ({ signed: { network: "eip155:1" } }),
  expired: () => ({ authorization: { validBefore: secondsFromNow(-60) } }),
  /** Valid now, but not for as long as a job may wait for its worker. */
  expiring: () => ({ authorization: { validBefore: secondsFromNow(10) } }),
  not_yet_valid: () => ({ authorization: { validAfter: secondsFromNow(3_600) } }),
  /** Signed by one who has money, in the name of another. */
  other_signer: (_, { outsider }) => ({ authorization: { from: outsider as `0x${string}` } }),
  domain: (requirement) => ({ signed: inside(requirement, { version: "1" }) }),
} satisfies Record<string, Deviate>;

const SVM = {
  ...COMMON,
  network: () => ({ claimed: { network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" } }),
  /** A blockhash that the chain does not know (any more). */
  expired: (requirement) => ({ signed: inside(requirement, { recentBlockhash: getBase58Decoder().decode(randomBytes(32)) }) }),
  /** The fee is to be paid by one whose key the facilitator has not. */
  fee_payer: (requirement, { outsider }) => honestly(inside(requirement, { feePayer: outsider })),
  forged_fee_payer: (requirement, { outsider }) => ({ signed: inside(requirement, { feePayer: outsider }) }),
} satisfies Record<string, Deviate>;

/** Every way to pay wrongly, by chain. */
export const WRONGS = { evm: EVM, svm: SVM } as const;
/** A way to pay wrongly on the EVM instance. */
export type EvmWrong = keyof typeof EVM;
/** A way to pay wrongly on the SVM instance. */
export type SvmWrong = keyof typeof SVM;

/** What the wrong payment of this name deviates in. @throws when the chain has no such wrong */
export function deviationOf(chain: "evm" | "svm", wrong: string, requirement: Requirement, around: Surroundings): Deviation {
  const deviate = (WRONGS[chain] as Record<string, Deviate>)[wrong];
  if (deviate === undefined) throw new Error(`no wrong payment ${wrong} on ${chain}`);
  return deviate(requirement, around);
}
