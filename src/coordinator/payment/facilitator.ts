// Asks the facilitator: verify, settle, and who pays the fee on Solana. On a job's way: pay → verify, and settle.
import type { PaymentPayload, PaymentRequirements, SettleResponse, SupportedResponse } from "@x402/core/types";
import { TIMING } from "../../protocol/limits.ts";
import type { Settings } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { TUNING } from "../tuning.ts";
import { bazaarOf } from "./discovery.ts";
import { FacilitatorClient, NoAnswer } from "./facilitator-client.ts";
import { meaningOf, type SettleMeaning } from "./settle-table.ts";

/** How long the facilitator may take, ms [PY8]. */
const TIMEOUT = { supported: TIMING.supported, verify: TIMING.verify, settle: TIMING.settle } as const;

/** The facilitator's answer about a payment before it is settled. `payer` is null if it names none. */
export type VerifyOutcome = { kind: "valid"; payer: string | null } | { kind: "invalid"; reason: string } | { kind: "unavailable"; reason: string };

/** The outcome of a settle call. `response` is JSON text of the x402 SettleResponse for the payer. */
export type SettleOutcome =
  | { kind: "settled"; transaction: string; response: string }
  /** `already_used`: the chain has seen this payment before. Whether we sent it then, only our own earlier calls can tell [PY8]. */
  | { kind: "refused" | "already_used"; reason: string; response: string }
  /** The facilitator did not take the question: ask again. */
  | { kind: "not_asked"; reason: string }
  /** The money may have moved: settle the same payload again. `lost`: there was no answer at all [PY8]. */
  | { kind: "unknown"; reason: string; lost: boolean };

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
    const { status, ...answer } = await client(where, "settle").settle(...parse(payloadJson, requirementsJson));
    const { success, errorReason = "", transaction } = answer;
    return outcomeOf(meaningOf({ status, success, errorReason, transaction }), errorReason || `status_${status}`, answer);
  } catch (error) {
    if (!(error instanceof NoAnswer)) return { kind: "unknown", reason: "failed", lost: false };
    return outcomeOf(meaningOf({ status: error.status, success: null, errorReason: "", transaction: "" }), error.reason, null);
  }
}

function outcomeOf(meaning: SettleMeaning, reason: string, answer: SettleResponse | null): SettleOutcome {
  if (meaning === "not_asked") return { kind: meaning, reason };
  if (meaning === "unknown" || meaning === "lost" || answer === null) return { kind: "unknown", reason, lost: meaning === "lost" };
  const { errorReason: _, ...said } = answer;
  if (meaning === "settled") return { kind: meaning, transaction: answer.transaction, response: JSON.stringify(said) };
  const { transaction, network, payer } = answer;
  return { kind: meaning, reason, response: JSON.stringify({ success: false, errorReason: reason, transaction, network, payer }) };
}

function client(where: Where, operation: keyof typeof TIMEOUT): FacilitatorClient {
  return new FacilitatorClient({ url: where.payment.facilitator, timeoutMs: TIMEOUT[operation] }, where.payment.authorization);
}

/** Parses our own texts, which the router wrote after its checks, and adds what the facilitator lists the endpoint with. */
function parse(payloadJson: string, requirementsJson: string): [PaymentPayload, PaymentRequirements] {
  const payload: PaymentPayload = JSON.parse(payloadJson);
  const { url } = payload.resource ?? {};
  return [url === undefined ? payload : { ...payload, extensions: { bazaar: bazaarOf(url) } }, JSON.parse(requirementsJson)];
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
