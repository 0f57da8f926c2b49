// Signs payments in the payment lab, correct or deliberately wrong ones.
import type { Address, KeyPairSigner } from "@solana/kit";
import type { PrivateKeyAccount } from "viem/accounts";
import type { EvmChain } from "../evm/chain.ts";
import type { Chains } from "../facilitator/schemes.ts";
import type { SvmChain } from "../svm/chain.ts";
import type { Challenge, Requirement } from "./challenge.ts";
import { encode, type Envelope, type PaymentHeader, type PaymentMessage, wrap } from "./envelope.ts";
import { type EvmPayload, signEvm } from "./evm.ts";
import { signSvm, spoilSvm, type SvmPayload } from "./svm.ts";
import { type Deviation, deviationOf, type EvmWrong, type SvmWrong, type Who } from "./wrongs.ts";

/** How to pay. */
export type PayOptions = {
  /** Default 0, the first payer with money. */
  who?: Who;
  /** Default v2. */
  envelope?: Envelope;
  /** EVM: for how many seconds from now; default the challenge's `maxTimeoutSeconds`. */
  validFor?: number;
  /** Pays wrongly in this way. */
  wrong?: EvmWrong | SvmWrong;
};

/** A signed payment. */
export type Payment = {
  /** The payer's address. */
  readonly payer: string;
  readonly payload: EvmPayload | SvmPayload;
  readonly message: PaymentMessage;
  /** The message in base64: the value of the header. */
  readonly value: string;
  /** The header to send, `PAYMENT-SIGNATURE` by default. */
  headers(name?: PaymentHeader): Record<string, string>;
};

/** Signs a payment for a challenge on the chain that it names. @throws when the lab has not that chain, or not that way to pay wrongly */
export async function pay(chains: Chains, challenge: Challenge, { who = 0, envelope = "v2", validFor, wrong }: PayOptions = {}): Promise<Payment> {
  const { requirement } = challenge;
  const chain = [chains.evm, chains.svm].find((known) => known?.network === requirement.network);
  if (chain === undefined) throw new Error(`the lab has no ${requirement.network}`);
  const around = { otherToken: chain.otherToken, outsider: chain.outsider.address };
  const kind = isEvm(chain) ? "evm" : "svm";
  const deviation: Deviation = wrong === undefined ? {} : deviationOf(kind, wrong, requirement, around);
  const payer = payerOf(chain, deviation.who ?? who);
  const signed: Requirement = { ...requirement, ...(validFor !== undefined && { maxTimeoutSeconds: validFor }), ...deviation.signed };
  const payload = isEvm(chain) ? await payEvm(payer as PrivateKeyAccount, signed, deviation) : await paySvm(payer as KeyPairSigner, signed, deviation, chain);
  const message = wrap(envelope, payload, { ...requirement, ...deviation.claimed }, challenge);
  const value = encode(message);
  return { payer: payer.address, payload, message, value, headers: (name = "PAYMENT-SIGNATURE") => ({ [name]: value }) };
}

/** Somebody's balance on either chain, in millionths of a dollar. */
export function balanceOf(chain: EvmChain | SvmChain, owner: string): Promise<bigint> {
  return isEvm(chain) ? chain.balanceOf(owner as `0x${string}`) : chain.balanceOf(owner as Address);
}

/** The balances of many at once. */
export function balancesOf(chain: EvmChain | SvmChain, owners: readonly string[]): Promise<bigint[]> {
  return isEvm(chain) ? chain.balancesOf(owners as `0x${string}`[]) : chain.balancesOf(owners as Address[]);
}

async function payEvm(payer: PrivateKeyAccount, signed: Requirement, { authorization, spoilSignature }: Deviation): Promise<EvmPayload> {
  const payload = await signEvm(payer, signed, authorization);
  if (!spoilSignature) return payload;
  const nibble = payload.signature[20] === "0" ? "1" : "0";
  return { ...payload, signature: `${payload.signature.slice(0, 20)}${nibble}${payload.signature.slice(21)}` as `0x${string}` };
}

async function paySvm(payer: KeyPairSigner, signed: Requirement, { spoilSignature }: Deviation, { rpcUrl }: SvmChain): Promise<SvmPayload> {
  const payload = await signSvm(payer, signed, rpcUrl);
  return spoilSignature ? spoilSvm(payload, payer) : payload;
}

function payerOf(chain: EvmChain | SvmChain, who: Who): PrivateKeyAccount | KeyPairSigner {
  const payer = typeof who === "string" ? chain[who] : chain.payers[who];
  if (payer === undefined) throw new Error(`the lab has no payer ${who}`);
  return payer;
}

function isEvm(chain: EvmChain | SvmChain): chain is EvmChain {
  return chain.network.startsWith("eip155:");
}
