// Asks the facilitator: verify, settle, and who pays the fee on Solana; strict about redirects, sizes and answers. On a job's way: pay → verify, and settle.
import type { FacilitatorClient as X402FacilitatorClient } from "@x402/core/server";
import type { PaymentPayload, PaymentRequirements, SettleResponse, SupportedResponse, VerifyResponse } from "@x402/core/types";
import * as z from "zod";
import { isJsonObject, readJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { boundedText } from "../chain/json-rpc.ts";
import type { Settings } from "../config.ts";
import { isWithin, withSignal } from "../deadline.ts";
import { errorFacts, logError } from "../log.ts";
import { TUNING } from "../tuning.ts";
import { hasFailed } from "./chain-svm.ts";
import { bazaarOf } from "./discovery.ts";
import { meaningOf, type SettleMeaning, type SettleReply } from "./settle-table.ts";

/** The facilitator's answer about a payment before it is settled. `payer` is null if it names none. */
type VerifyOutcome = { kind: "valid"; payer: string | null } | { kind: "invalid"; reason: string } | { kind: "unavailable"; reason: string };

/** The outcome of a settle call. `response` is JSON text of the x402 SettleResponse for the payer. */
export type SettleOutcome =
  | { kind: "settled"; transaction: string; response: string }
  /** `already_used`: the chain has seen this payment before. Only our own earlier calls can tell whether we sent it then [PY8]. */
  | { kind: "refused" | "already_used"; reason: string; response: string }
  /** The facilitator did not accept the request: ask again. */
  | { kind: "not_asked"; reason: string }
  /**
   * The money may have moved: settle the same payload again. `lost`: there was no answer at all. `mayStillRun`: there was none in time, and the facilitator may
   * still be processing it [PY8].
   */
  | { kind: "unknown"; reason: string; lost: boolean; mayStillRun?: true };

/** The settings that name the facilitator and the chain. */
type Where = { payment: Pick<Settings["payment"], "facilitator" | "authorization" | "rpcUrl"> };

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

/** How a settle call ends that the facilitator may still be at: our own time-out, and those of a gateway in front of it (524 is Cloudflare's). */
const MAY_STILL_RUN: readonly SettleReply["status"][] = ["timeout", 504, 524];

/** Asks the facilitator to move the money of a payment. Never throws; nothing of the payment is logged. */
export async function settlePayment(where: Where, payloadJson: string, requirementsJson: string): Promise<SettleOutcome> {
  try {
    const { status, ...answer } = await client(where, "settle").settle(...parse(payloadJson, requirementsJson));
    const { success, errorReason = "", transaction } = answer;
    const outcome = outcomeOf(meaningOf({ status, success, errorReason, transaction }), errorReason || `status_${status}`, answer);
    if (outcome.kind === "settled" && (await contradicts(where.payment.rpcUrl, answer))) return { kind: "unknown", reason: "failed_on_chain", lost: false };
    return outcome;
  } catch (error) {
    if (!(error instanceof NoAnswer)) return { kind: "unknown", reason: "failed", lost: false };
    const outcome = outcomeOf(meaningOf({ status: error.status, success: null, errorReason: "", transaction: "" }), error.reason, null);
    return outcome.kind === "unknown" && MAY_STILL_RUN.includes(error.status) ? { ...outcome, mayStillRun: true } : outcome;
  }
}

/** True if the chain shows that a settled transaction has failed. Only on Solana: a facilitator on EVM has always read the receipt. */
async function contradicts(rpcUrl: string | null, { network, transaction }: SettleResponse): Promise<boolean> {
  if (rpcUrl === null || !network.startsWith("solana:")) return false;
  try {
    return await hasFailed(rpcUrl, transaction);
  } catch (error) {
    // Without the chain the facilitator is believed.
    logError("chain_unreadable", errorFacts(error));
    return false;
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

function client(where: Where, operation: "supported" | "verify" | "settle"): FacilitatorClient {
  const { facilitator: url, authorization } = where.payment;
  return new FacilitatorClient({ url, timeoutMs: TIMING[operation], authorization });
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
type FeePayers = { quoted: string | null; all: readonly string[] | null };

type FeePayerSettings = Pick<Settings, "network" | "payment">;

type Entry = { known: FeePayers | null; answeredAt: number; failedAt: number; askingUntil: number };
const cache = new Map<string, Entry>();

/**
 * The fee payers of an SVM instance. Each isolate asks for them every few minutes at most; if the facilitator does not answer, an old answer is better
 * than none [PY12].
 */
export async function feePayers(settings: FeePayerSettings, clock: () => number = Date.now): Promise<FeePayers | null> {
  return (await entryOf(settings, TUNING.feePayersFresh, clock)).known;
}

/**
 * False if a list of the facilitator that is only seconds old lacks this fee payer [PY11]. Without such a list, as while the facilitator does not answer, this
 * is true, because the facilitator checks the fee payer again.
 */
export async function mayPayFee(settings: FeePayerSettings, feePayer: string, clock: () => number = Date.now): Promise<boolean> {
  const isListed = ({ known }: Entry) => known?.all == null || known.all.includes(feePayer);
  if (isListed(await entryOf(settings, TUNING.feePayersFresh, clock))) return true;
  const entry = await entryOf(settings, TUNING.feePayersRefusing, clock);
  return isListed(entry) || !isWithin(clock(), entry.answeredAt, TUNING.feePayersRefusing);
}

/** The newest list, asked for again if it is older than `maxAge` (ms). */
async function entryOf(settings: FeePayerSettings, maxAge: number, clock: () => number): Promise<Entry> {
  const { network, payment } = settings;
  const name = `${network} ${payment.facilitator}`;
  const entry = cache.get(name) ?? { known: null, answeredAt: -Infinity, failedAt: -Infinity, askingUntil: -Infinity };
  cache.set(name, entry);
  const now = clock();
  const isFresh = isWithin(now, entry.answeredAt, maxAge);
  if (isFresh || isWithin(now, entry.failedAt, TUNING.feePayersPause) || (entry.known !== null && now < entry.askingUntil)) return entry;
  entry.askingUntil = now + TUNING.feePayersAsking;
  try {
    entry.known = feePayersOf(await client(settings, "supported").getSupported(), network);
    entry.answeredAt = clock();
  } catch (error) {
    entry.failedAt = clock();
    logError("facilitator_supported", { ...errorFacts(error), reason: error instanceof NoAnswer ? error.reason : null, stale: entry.known !== null });
  }
  entry.askingUntil = -Infinity;
  return entry;
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

/** A short text of an answer: printable characters only, and at most 200. */
const Word = z.string().transform((text) => text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 200));

/** The answer to verify: valid, with the payer; or invalid, with the reason. Anything else is no answer. */
const VerifyAnswer = z.discriminatedUnion("isValid", [
  z.object({ isValid: z.literal(true), payer: Word.exactOptional() }),
  z.object({ isValid: z.literal(false), payer: Word.exactOptional(), invalidReason: Word.exactOptional() }),
]);

/** The usable part of the answer to settle; settle-table.ts says what it means. */
const SettleAnswer = z.object({
  success: z.boolean(),
  errorReason: Word.default(""),
  payer: Word.exactOptional(),
  transaction: Word.default(""),
  amount: Word.exactOptional(),
});

/** The answer to supported: the kinds of payment, and the addresses that it signs with, by CAIP-2 id or family (`solana:*`). */
const SupportedAnswer = z.object({
  kinds: z.array(
    z.object({
      x402Version: z.number(),
      scheme: z.string(),
      network: z.templateLiteral([z.string(), ":", z.string()]),
      extra: z.record(z.string(), z.unknown()).exactOptional(),
    }),
  ),
  extensions: z.array(z.string()).default([]),
  signers: z.record(z.string(), z.array(z.string())).default({}),
});

/** Thrown if the facilitator gave no usable answer: it is not known whether money moved. */
class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly reason: "timeout" | "unreachable" | "redirected" | "server_error" | "invalid_response" | `http_${number}`;
  readonly status: SettleReply["status"];

  constructor(reason: NoAnswer["reason"], status: NoAnswer["status"], options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
    this.status = status;
  }
}

/** An answer of another form than x402's. Its status says more than its form if it is an error: a wrong credential is 401. */
function unusable(status: number): NoAnswer {
  return new NoAnswer(status >= 400 ? `http_${status}` : "invalid_response", status);
}

/**
 * A client as @x402/core has one, with stricter requests. It follows no redirect (theirs of version 2.27 does), reads an answer up to a bound, accepts it only
 * if status and body agree (2.27 ignores `success` in the body of a 4xx), and never asks twice (2.27 sleeps up to a minute for `/supported`). All else is a
 * {@link NoAnswer}. A subclass of theirs would keep only two fields and bring a second version of zod into the bundle.
 */
export class FacilitatorClient implements X402FacilitatorClient {
  readonly #url: string;
  readonly #timeoutMs: number;
  readonly #authorization: string | null;

  /** `authorization` is sent with every request to the facilitator, and nowhere else: no redirect is followed. */
  constructor({ url, timeoutMs, authorization }: { url: string; timeoutMs: number; authorization: string | null }) {
    this.#url = url.replace(/\/+$/, "");
    this.#timeoutMs = timeoutMs;
    this.#authorization = authorization;
  }

  /** @throws {NoAnswer} */
  async verify(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements): Promise<VerifyResponse> {
    const { ok, status, json } = await this.#ask("verify", { paymentPayload, paymentRequirements });
    const answer = VerifyAnswer.safeParse(json);
    if (!answer.success || (answer.data.isValid && !ok)) throw unusable(status);
    return answer.data;
  }

  /** The answer with its HTTP status; settle-table.ts says what it means. @throws {NoAnswer} */
  async settle(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements): Promise<SettleResponse & { status: number }> {
    const { status, json } = await this.#ask("settle", { paymentPayload, paymentRequirements });
    const answer = SettleAnswer.safeParse(json);
    if (!answer.success) throw unusable(status);
    // The network is ours. Some facilitators answer with the short names of version 1.
    return { ...answer.data, network: paymentRequirements.network, status };
  }

  /** @throws {NoAnswer} */
  async getSupported(): Promise<SupportedResponse> {
    const { ok, status, json } = await this.#ask("supported", null);
    const answer = SupportedAnswer.safeParse(json);
    if (!answer.success || !ok) throw unusable(status);
    return answer.data;
  }

  async #ask(
    operation: string,
    question: { paymentPayload: PaymentPayload; paymentRequirements: PaymentRequirements } | null,
  ): Promise<{ ok: boolean; status: number; json: unknown }> {
    return await withSignal(this.#timeoutMs, async (signal) => {
      try {
        const response = await fetch(`${this.#url}/${operation}`, {
          method: question === null ? "GET" : "POST",
          headers: {
            "Content-Type": "application/json",
            Accept: "application/json",
            ...(this.#authorization !== null && { Authorization: this.#authorization }),
          },
          ...(question !== null && { body: JSON.stringify({ x402Version: question.paymentPayload.x402Version, ...question }) }),
          redirect: "manual",
          signal,
        });
        const { status } = response;
        if (status >= 300 && status < 400) throw new NoAnswer("redirected", status);
        if (status >= 500) throw new NoAnswer("server_error", status);
        return { ok: response.ok, status, json: await readAnswer(response) };
      } catch (error) {
        if (error instanceof NoAnswer) throw error;
        throw signal.aborted ? new NoAnswer("timeout", "timeout", { cause: error }) : new NoAnswer("unreachable", "cut", { cause: error });
      }
    });
  }
}

async function readAnswer(response: Response): Promise<unknown> {
  const text = await boundedText(response, LIMITS.facilitatorAnswerBytes);
  if (text === null) throw unusable(response.status);
  const json = readJson(text);
  if (!json.ok || !isJsonObject(json.value)) throw unusable(response.status);
  // Some facilitators write null for a missing member.
  return Object.fromEntries(Object.entries(json.value).filter(([, member]) => member !== null));
}
