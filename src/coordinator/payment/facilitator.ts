// Asks the facilitator: verify, settle, and who pays the fee on Solana. On a job's way: pay → verify, and settle.
import type { PaymentPayload, PaymentRequirements, SettleResponse, SupportedResponse } from "@x402/core/types";
import { TIMING } from "../../protocol/limits.ts";
import type { Settings } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { TUNING } from "../tuning.ts";
import { FacilitatorClient, NoAnswer } from "./facilitator-client.ts";

/** How long the facilitator may take, ms [PY8]. */
const TIMEOUT = { supported: TIMING.supported, verify: TIMING.verify, settle: TIMING.settle } as const;

/** The reasons with which reference facilitators and chains say that an authorization or transaction was used before. */
const ALREADY_USED = /already[_ ]?(been[_ ])?(used|processed|settled|spent)|duplicate_settlement|authorization is used/i;

/**
 * Reasons with which a settlement fails both for a payment that was settled before and for one that cannot be settled: the library drops the words that
 * tell the difference (2.27 drops them from settle, but not from verify).
 */
const MAY_HIDE_A_USE = /simulation_failed|transaction_failed|transaction_state/;

/** The transaction was sent, and its outcome is not known yet. To settle the same payload again finds it out. */
const PENDING = /(^|_)pending($|_)/;

/** The facilitator's answer about a payment before it is settled. `payer` is null if it names none. */
export type VerifyOutcome = { kind: "valid"; payer: string | null } | { kind: "invalid"; reason: string } | { kind: "unavailable"; reason: string };

/** The outcome of a settlement. `response` is JSON text of the x402 SettleResponse for the payer. */
export type SettleOutcome =
  | { kind: "settled"; transaction: string; response: string }
  /** `alreadyUsed`: the chain has seen this payment before. Whether we sent it then, only our own earlier attempts can tell [PY8]. */
  | { kind: "refused"; reason: string; response: string; alreadyUsed: boolean }
  /** The money may have moved: settle the same payload again [PY8]. */
  | { kind: "unknown"; reason: string };

/** The settings that name the facilitator. */
type Where = { payment: Pick<Settings["payment"], "facilitator" | "authorization"> };

/** Asks the facilitator what it supports. @throws {NoAnswer} */
async function askSupported(where: Where): Promise<SupportedResponse> {
  return await client(where, "supported").getSupported();
}

/** Asks the facilitator whether a payment is good. Never throws; nothing of the payment is logged. */
export async function verifyPayment(where: Where, payloadJson: string, requirementsJson: string): Promise<VerifyOutcome> {
  try {
    const answer = await client(where, "verify").verify(...parse(payloadJson, requirementsJson));
    if (answer.isValid) return { kind: "valid", payer: answer.payer || null };
    return { kind: "invalid", reason: answer.invalidReason || "refused_by_facilitator" };
  } catch (error) {
    return { kind: "unavailable", reason: reasonOf(error) };
  }
}

/** Asks the facilitator to move the money of a payment. Never throws; nothing of the payment is logged. */
export async function settlePayment(where: Where, payloadJson: string, requirementsJson: string): Promise<SettleOutcome> {
  try {
    const answer = await client(where, "settle").settle(...parse(payloadJson, requirementsJson));
    if (answer.success) return { kind: "settled", transaction: answer.transaction, response: JSON.stringify(answer) };
    const { errorReason: reason = "refused_by_facilitator", errorMessage = "" } = answer;
    if (PENDING.test(reason)) return { kind: "unknown", reason };
    const alreadyUsed =
      ALREADY_USED.test(`${reason} ${errorMessage}`) || (MAY_HIDE_A_USE.test(reason) && (await wasUsed(where, payloadJson, requirementsJson)));
    return { kind: "refused", reason, response: failure(answer, reason), alreadyUsed };
  } catch (error) {
    return { kind: "unknown", reason: reasonOf(error) };
  }
}

/** Asks the facilitator to verify a payment. True if it says that the payment was used before. @throws {NoAnswer} */
async function wasUsed(where: Where, payloadJson: string, requirementsJson: string): Promise<boolean> {
  const answer = await client(where, "verify").verify(...parse(payloadJson, requirementsJson));
  return !answer.isValid && ALREADY_USED.test(`${answer.invalidReason ?? ""} ${answer.invalidMessage ?? ""}`);
}

/** JSON text of a failed settlement for the payer, without the message, which can quote the facilitator's own node. */
function failure({ transaction, network, payer }: SettleResponse, errorReason: string): string {
  return JSON.stringify({ success: false, errorReason, transaction, network, payer });
}

function client(where: Where, operation: keyof typeof TIMEOUT): FacilitatorClient {
  return new FacilitatorClient({ url: where.payment.facilitator, timeoutMs: TIMEOUT[operation] }, where.payment.authorization);
}

/** Parses our own texts, which the router wrote after its checks. */
function parse(payloadJson: string, requirementsJson: string): [PaymentPayload, PaymentRequirements] {
  return [JSON.parse(payloadJson), JSON.parse(requirementsJson)];
}

function reasonOf(error: unknown): string {
  return error instanceof NoAnswer ? error.reason : "failed";
}

/** Who may pay the chain's fee on SVM: the account that a 402 names, and all that are accepted; null if the facilitator does not say [PY11]. */
export type FeePayers = { quoted: string | null; all: readonly string[] | null };

type Entry = { known: FeePayers | null; answeredAt: number; failedAt: number; askingUntil: number };
const cache = new Map<string, Entry>();

/**
 * The fee payers of an SVM instance. Each isolate asks for them every few minutes at most; if the facilitator does not answer, an old answer is better
 * than none [PY12]. An answer older than `maxAge` (ms) is asked for again.
 */
export async function feePayers(
  settings: Pick<Settings, "network" | "payment">,
  maxAge: number = TUNING.feePayersFresh,
  clock: () => number = Date.now,
): Promise<FeePayers | null> {
  const { network, payment } = settings;
  const name = `${network} ${payment.facilitator}`;
  const entry = cache.get(name) ?? { known: null, answeredAt: -Infinity, failedAt: -Infinity, askingUntil: -Infinity };
  cache.set(name, entry);
  const now = clock();
  if (now - entry.answeredAt < maxAge || now - entry.failedAt < TUNING.feePayersPause || (entry.known !== null && now < entry.askingUntil)) return entry.known;
  entry.askingUntil = now + TUNING.feePayersAsking;
  try {
    entry.known = feePayersOf(await askSupported(settings), network);
    entry.answeredAt = clock();
  } catch (error) {
    entry.failedAt = clock();
    logError("facilitator_supported", { ...errorFacts(error), reason: error instanceof NoAnswer ? error.reason : null, stale: entry.known !== null });
  }
  entry.askingUntil = -Infinity;
  return entry.known;
}

/** The fee payers that an answer of `/supported` names for a network. */
export function feePayersOf({ kinds, signers }: SupportedResponse, network: string): FeePayers {
  const quoted = kinds
    .filter((kind) => kind.x402Version === 2 && kind.scheme === "exact" && kind.network === network)
    .map((kind) => kind.extra?.feePayer)
    .find((feePayer) => typeof feePayer === "string");
  const family = `${network.split(":")[0]}:*`;
  const listed = [...(signers[network] ?? []), ...(signers[family] ?? [])];
  const all = listed.length === 0 ? null : [...new Set(quoted === undefined ? listed : [quoted, ...listed])];
  return { quoted: quoted ?? all?.[0] ?? null, all };
}
