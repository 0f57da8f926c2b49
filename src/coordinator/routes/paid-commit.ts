import { RETRY_AFTER } from "../../protocol/limits.ts";
import type { ResolvedPolicy } from "../../protocol/job.ts";
import { isJsonObject, readJson } from "../../protocol/text.ts";
import type { PaymentInput, ReserveAnswer, SubmitAnswer } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import type { AppContext, AppEnv } from "../http/context.ts";
import { askHub } from "../http/hub-client.ts";
import { accepted, type Commit, refused } from "./commit-answer.ts";
import { refuse } from "../http/errors.ts";
import { feePayers, verifyPayment } from "../payment/facilitator.ts";
import { type Offer, offerOf, paymentRequired, requiredHeader, resourceInfo } from "../payment/terms.ts";
import { bringsPayment, chargedTerms, payloadText, type PaymentHeaders, readPayment, type ReadPayment } from "../payment/read-payment.ts";
import type { MiddlewareHandler } from "hono";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { toBase64 } from "../../receipt/bytes.ts";
import { TUNING } from "../tuning.ts";

/** Whether a payment may be spent, and by whom; if not, what is answered. */
type Verdict = { ok: true; payer: string } | { ok: false; kind: "invalid" | "unavailable"; reason: string };

/** Why the hub took no job, other than that the money did not move. */
type Refusal = Extract<ReserveAnswer, { state: "refused" }> | Exclude<Extract<SubmitAnswer, { ok: false }>, { reason: "payment_failed" }>;

/**
 * A commit that brings a payment: read it, reserve it, have it verified, submit [PY5]. `binding` is the fingerprint of endpoint and fields: the
 * same payment for another job is refused [PY6]. Nothing is charged before `submit`, and there only when a worker is claimed [PY7].
 */
export async function paidCommit(c: AppContext, commit: Commit, policy: ResolvedPolicy, binding: string): Promise<Response> {
  const offer = await offerOf(c.var.settings, policy, c.req.url);
  const payment = readPayment(paymentHeaders(c), offer, Date.now());
  if (!payment.ok) {
    // A stored answer counts whatever payment comes with it [API5].
    const stored = await askHub(c.env, (hub) => hub.stored(commit.now()));
    if (stored?.state === "known") return await alreadyDone(c, stored, commit.wait);
    if (stored !== null) return refusedPaid(c, offer, stored);
    return answer402(c, offer, `invalid_payment: ${payment.error}`);
  }

  const input = inputOf(payment, offer, binding);
  const reservation = await askHub(c.env, (hub, again) => hub.reserve({ ...commit.now(), again }, input));
  switch (reservation.state) {
    case "known":
      return await alreadyDone(c, reservation, commit.wait);
    case "refused":
      return refusedPaid(c, offer, reservation);
    case "credit":
      // Settled long ago: nobody has to be asked again, and its time may be over.
      return await submit(c, commit, offer, input, payment.payer ?? "");
    case "reserved":
      break;
    default:
      return reservation satisfies never;
  }

  const verdict = await judge(c, payment, input);
  if (verdict.ok) return await submit(c, commit, offer, input, verdict.payer);
  await askHub(c.env, (hub) => hub.release(input.key, commit.now().id)).catch((error: unknown) => {
    // It ends by itself in a minute; until then the same payment waits.
    logError("reservation_not_released", { request_id: c.var.requestId, ...errorFacts(error) });
  });
  if (verdict.kind === "invalid") return answer402(c, offer, `invalid_payment: ${verdict.reason}`);
  logError("facilitator_unavailable", { request_id: c.var.requestId, reason: verdict.reason });
  return refuse(c, "facilitator_unavailable", RETRY_AFTER.facilitator_unavailable);
}

/** The same commit again: the same answer. */
async function alreadyDone(c: AppContext, known: Extract<ReserveAnswer, { state: "known" }>, wait: number): Promise<Response> {
  setSettlement(c, known.settlement);
  return await accepted(c, known, wait);
}

function inputOf(payment: ReadPayment, offer: Offer, binding: string): PaymentInput {
  const { key, digest, payer, expiresAt } = payment;
  const terms = chargedTerms(payment, offer);
  const payload = payloadText(payment, offer, resourceInfo(offer));
  const asset = `${terms.network}/${offer.instance === "evm" ? terms.asset.toLowerCase() : terms.asset}`;
  return { key, digest, binding, payer, asset, amount: terms.amount, expiresAt, payload, requirements: JSON.stringify(terms) };
}

/** Asks whether a reserved payment is good: first here what costs nothing, then the facilitator. */
async function judge(c: AppContext, payment: ReadPayment, input: PaymentInput): Promise<Verdict> {
  const { settings } = c.var;
  if (payment.untimely !== null) return { ok: false, kind: "invalid", reason: payment.untimely };
  if (payment.feePayer !== null && !(await isFeePayer(c, payment.feePayer))) {
    return { ok: false, kind: "invalid", reason: "payload.transaction names a fee payer that is none of the facilitator's" };
  }
  const outcome = await verifyPayment(settings, input.payload, input.requirements);
  if (outcome.kind !== "valid") return { ok: false, ...outcome };
  // On EVM the payment itself says who pays, and a facilitator that read another one has verified something else.
  if (settings.instance === "evm" && payment.payer !== null && outcome.payer !== null && outcome.payer.toLowerCase() !== payment.payer) {
    return { ok: false, kind: "unavailable", reason: "another_payer" };
  }
  const payer = settings.instance === "evm" ? payment.payer : (outcome.payer ?? payment.payer);
  return payer === null ? { ok: false, kind: "unavailable", reason: "no_payer" } : { ok: true, payer };
}

/** Whether the facilitator would pay this fee [PY11]. It is asked anew before it is said not to; where it does not tell, it will see for itself. */
async function isFeePayer(c: AppContext, feePayer: string): Promise<boolean> {
  const listed = (all: readonly string[] | null | undefined) => all == null || all.includes(feePayer);
  if (listed((await feePayers(c.var.settings))?.all)) return true;
  return listed((await feePayers(c.var.settings, TUNING.feePayersRefusing))?.all);
}

async function submit(c: AppContext, commit: Commit, offer: Offer, input: PaymentInput, payer: string): Promise<Response> {
  const answer = await askHub(c.env, (hub) => hub.submit(commit.now(), input.key, payer));
  if (answer.ok) {
    setSettlement(c, answer.settlement);
    return await accepted(c, answer, commit.wait);
  }
  if (answer.reason !== "payment_failed") return refusedPaid(c, offer, answer);
  setSettlement(c, answer.settlement);
  return answer402(c, offer, failure(answer));
}

/** The answer to a payment that the hub did not take: nothing was charged. */
function refusedPaid(c: AppContext, offer: Offer, answer: Refusal): Response {
  switch (answer.reason) {
    case "payment_already_used":
      return answer402(c, offer, answer.reason);
    case "reservation_lost":
      return refuse(c, "overloaded", RETRY_AFTER.overloaded);
    case "no_trusted_worker":
      return refused(c, answer);
    default:
      return refused(c, { reason: answer.reason });
  }
}

/** `payment_failed`, and the reason in the facilitator's words. */
function failure({ error, settlement }: { error: string; settlement: string }): string {
  const json = readJson(settlement);
  const reason = json.ok && isJsonObject(json.value) && typeof json.value.errorReason === "string" ? json.value.errorReason : error;
  return reason === "payment_failed" ? reason : `payment_failed: ${reason}`;
}

/**
 * The gate of one commit endpoint [PY1]: open while `TESTNET_MODE` is true, else a request without a payment is told what to pay before its body
 * is looked at [PY5]. One that brings a payment goes on; whether it is good is seen where the job is known.
 */
export const paymentGate =
  (policy: ResolvedPolicy): MiddlewareHandler<AppEnv> =>
  async (c, next) => {
    const { settings } = c.var;
    if (settings.testnetMode || bringsPayment(paymentHeaders(c))) return next();
    return answer402(c, await offerOf(settings, policy, c.req.url), "payment_required");
  };

/** The headers of a request that a payment may be in [PY3]. */
function paymentHeaders(c: AppContext): PaymentHeaders {
  return { "PAYMENT-SIGNATURE": c.req.header("PAYMENT-SIGNATURE"), "X-PAYMENT": c.req.header("X-PAYMENT") };
}

/** A 402: what is wanted, in header and body, and why this was not it [PY4]. */
function answer402(c: AppContext, offer: Offer, error: string): Response {
  c.header("PAYMENT-REQUIRED", header(JSON.stringify(requiredHeader(offer, error))));
  c.header("Cache-Control", "no-store");
  return c.json(paymentRequired(offer, error), 402);
}

/** Tells what became of a payment, under the names of both versions; `settlement` is JSON text of the facilitator's SettleResponse [PY4]. */
export function setSettlement(c: AppContext, settlement: string | null): void {
  if (settlement === null) return;
  const value = header(settlement);
  c.header("PAYMENT-RESPONSE", value);
  c.header("X-PAYMENT-RESPONSE", value);
}

function header(json: string): string {
  return toBase64(utf8ToBytes(json));
}
