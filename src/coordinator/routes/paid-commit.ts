// The payment gate and the paid path of a commit: read the payment → reserve → verify → submit. The hub then claims, settles and assigns.
import { utf8ToBytes } from "@noble/hashes/utils.js";
import type { MiddlewareHandler } from "hono";
import type { ResolvedPolicy } from "../../protocol/job.ts";
import { isJsonObject, readJson } from "../../protocol/json.ts";
import type { Result } from "../../protocol/result.ts";
import { isSameAddress, normalizeAddress } from "../../protocol/text.ts";
import { RETRY_AFTER } from "../../protocol/times.ts";
import { toBase64 } from "../../receipt/bytes.ts";
import { type AppContext, type AppEnv, refuse } from "../http/context.ts";
import { askHub, askHubToStore, HubUnavailable } from "../http/hub-client.ts";
import { countRequest, refuseIfUsedUp, refuseOverRate, takeCheck } from "../http/middleware.ts";
import { clientUrl } from "../http/request.ts";
import type { AcceptedJob, PaidJob, CommitInput, PaidAnswer, Hub, PaymentInput, ReserveAnswer } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import { mayPayFee, type SettleOutcome, settlePayment, verifyPayment } from "../payment/facilitator.ts";
import { bringsPayment, chargedTerms, payloadText, paymentIdentifier, type PaymentHeaders, readPayment, type ReadPayment } from "../payment/read-payment.ts";
import { type Offer, offerOf, paymentRequired, requiredHeader } from "../payment/terms.ts";
import { TUNING } from "../tuning.ts";
import { answerRefused, setSettlement } from "./commit-answers.ts";

/** Returns the commit for one call of the hub. `wait` is what is left of the client's wait, so a later call waits less. */
export type HubCommit = () => CommitInput;

/** Why a payment cannot be used. `unavailable` means that the facilitator gave no usable answer. */
type PaymentFault = { kind: "invalid" | "unavailable"; reason: string };

/** Why the hub did not accept the job, except a failed payment. */
type Refusal = Extract<ReserveAnswer, { state: "refused" }> | Exclude<Extract<PaidAnswer, { ok: false }>, { reason: "payment_failed" }>;

/**
 * Limits the commits of one client. Those with a payment have a rate of their own, so that a payer is not stopped by the rate of free requests. A request
 * whose payment is invalid, not verified or already known counts as a free request too [LM2, PY9]. Only as many of these come through as of free requests, also
 * of those that come at the same time: each asks the hub, and perhaps the facilitator.
 */
export const commitRate: MiddlewareHandler<AppEnv> = async (c, next) => {
  if (c.get("settings").testnetMode || !bringsPayment(paymentHeaders(c))) return (await refuseOverRate(c, "commits")) ?? next();
  const over = (await refuseOverRate(c, "paidCommits")) ?? refuseIfUsedUp(c, "failedPayments");
  if (over !== null) return over;
  const endCheck = takeCheck(c);
  if (endCheck === null) return refuse(c, "rate_limited", 1);
  c.set("endCheck", endCheck);
  try {
    await next();
  } finally {
    endCheck();
  }
  if (c.get("hasPaid") === true) return;
  await countRequest(c, "failedPayments");
  const late = await refuseOverRate(c, "commits");
  if (late === null) return;
  const { body } = c.res;
  c.set("isReplaced", true);
  // No header of the replaced answer must stay, because Hono gives all of them to each later answer.
  c.res = undefined;
  c.res = new Response(late.body, {
    status: late.status,
    headers: { "Content-Type": "application/json", "Retry-After": late.headers.get("Retry-After") ?? "" },
  });
  await body?.cancel();
};

/**
 * The gate of one commit endpoint [PY1]. With `TESTNET_MODE=true` it is open. Otherwise a request without a payment gets 402 with the terms, before
 * its body is read [PY5]. A request with a payment goes on: the payment is checked in `paidCommit`, where the job is known.
 */
export const paymentGate =
  (policy: ResolvedPolicy): MiddlewareHandler<AppEnv> =>
  async (c, next) => {
    const settings = c.get("settings");
    if (settings.testnetMode || bringsPayment(paymentHeaders(c))) return next();
    return answer402(c, await offerOf(settings, policy, clientUrl(c).href), "payment_required");
  };

/**
 * Handles a commit with a payment: reads the payment, reserves it, has it verified, and submits the job [PY5]. `binding` is the fingerprint of
 * endpoint and fields: the same payment for another job is refused [PY6]. Nothing is charged before `submit`, and then only when a worker is
 * claimed [PY7].
 */
export async function paidCommit(c: AppContext, hubCommit: HubCommit, policy: ResolvedPolicy, binding: string): Promise<Result<AcceptedJob, Response>> {
  const offer = await offerOf(c.get("settings"), policy, clientUrl(c).href);
  const read = readPayment(paymentHeaders(c), offer, Date.now());
  if (!read.ok) {
    // If the idempotency key has a stored answer, that answer counts, whatever is wrong with the payment [API5].
    const stored = await askHub(c.env, (hub) => hub.stored(hubCommit()));
    if (stored?.state === "known") return accepted(c, stored);
    if (stored !== null) return refused(refusedPaid(c, offer, stored));
    return refused(answer402(c, offer, `invalid_payment: ${read.reason}`));
  }
  const payment = read.value;

  const input = paymentInput(payment, offer, binding);
  const reservation = await askOrRelease(c, hubCommit, input.key, (hub, again) => hub.reserve({ ...hubCommit(), again }, input));
  switch (reservation.state) {
    case "known":
      return accepted(c, reservation);
    case "refused":
      return refused("settlement" in reservation ? paymentFailed(c, offer, reservation.settlement) : refusedPaid(c, offer, reservation));
    case "credit":
      // This payment was settled for a job that failed. It needs no verification, and its authorization may have expired.
      return await submit(c, hubCommit, offer, input, payment.payer ?? "");
    case "reserved":
      break;
    default:
      return reservation satisfies never;
  }

  const verified = await verify(c, payment, input);
  // A client that has left would not see the answer. It may send the same payment again.
  const hasLeft = c.req.raw.signal.aborted;
  if (verified.ok && !hasLeft) return await submit(c, hubCommit, offer, input, verified.value);
  await release(c, hubCommit, input.key);
  if (verified.ok) return refused(refuse(c, "overloaded", RETRY_AFTER.overloaded));
  const { kind, reason } = verified.reason;
  if (kind === "invalid") return refused(answer402(c, offer, `invalid_payment: ${reason}`));
  logError("facilitator_unavailable", { request_id: c.get("requestId"), reason });
  return refused(refuse(c, "facilitator_unavailable", RETRY_AFTER.facilitator_unavailable));
}

/** Ends the reservation of this request, so that the same payment can be sent again at once. Never rejects. */
async function release(c: AppContext, hubCommit: HubCommit, key: string): Promise<void> {
  try {
    await askHub(c.env, (hub) => hub.release(key, hubCommit().id));
  } catch (error) {
    // The reservation ends by itself after a minute. Until then the same payment has to wait.
    logError("reservation_not_released", { request_id: c.get("requestId"), ...errorFacts(error) });
  }
}

/**
 * Calls the hub. If the call fails, nobody knows what it has done. So this drops the reservation of this request, and
 * nothing else: other requests with this payment stop waiting, and a hub that took the job keeps it.
 */
async function askOrRelease<T>(
  c: AppContext,
  hubCommit: HubCommit,
  key: string,
  ask: (hub: Hub, again: boolean) => Promise<T>,
  call: typeof askHub = askHub,
): Promise<T> {
  try {
    return await call(c.env, ask);
  } catch (error) {
    await release(c, hubCommit, key);
    throw error;
  }
}

/** The job of a commit that was paid, now or when it came first. */
function accepted(c: AppContext, job: PaidJob): Result<AcceptedJob, Response> {
  setSettlement(c, job.settlement);
  return { ok: true, value: job };
}

function refused(answer: Response): Result<AcceptedJob, Response> {
  return { ok: false, reason: answer };
}

/** Returns the payment as the hub stores it. */
function paymentInput(payment: ReadPayment, offer: Offer, binding: string): PaymentInput {
  const { key, digest, payer, expiresAt } = payment;
  const terms = chargedTerms(payment, offer);
  const payload = payloadText(payment, offer);
  const asset = `${terms.network}/${normalizeAddress(terms.asset)}`;
  return { key, digest, binding, payer, asset, amount: terms.amount, expiresAt, payload, requirements: JSON.stringify(terms) };
}

/** Checks a reserved payment and returns its payer: first what can be checked here, then by asking the facilitator. */
async function verify(c: AppContext, payment: ReadPayment, input: PaymentInput): Promise<Result<string, PaymentFault>> {
  const settings = c.get("settings");
  if (payment.untimely !== null) return fault("invalid", payment.untimely);
  if (payment.feePayer !== null && !(await mayPayFee(settings, payment.feePayer))) {
    return fault("invalid", "payload.transaction names a fee payer that is not the facilitator's");
  }
  const outcome = await verifyPayment(settings, input.payload, input.requirements);
  if (outcome.kind !== "valid") return fault(outcome.kind, outcome.reason);
  // On EVM the payment names the payer. A facilitator that names another payer has verified something else.
  if (settings.instance === "evm" && payment.payer !== null && outcome.payer !== null && !isSameAddress(outcome.payer, payment.payer)) {
    return fault("unavailable", "another_payer");
  }
  const payer = settings.instance === "evm" ? payment.payer : (outcome.payer ?? payment.payer);
  return payer === null ? fault("unavailable", "no_payer") : { ok: true, value: payer };
}

function fault(kind: PaymentFault["kind"], reason: string): { ok: false; reason: PaymentFault } {
  return { ok: false, reason: { kind, reason } };
}

/** Submits a verified payment: the hub stores the job, claims a worker, settles and assigns. */
async function submit(c: AppContext, hubCommit: HubCommit, offer: Offer, input: PaymentInput, payer: string): Promise<Result<AcceptedJob, Response>> {
  c.set("hasPaid", true);
  c.get("endCheck")?.();
  const answer = await submitAndSettle(c, hubCommit, input, payer);
  if (answer.ok) return accepted(c, answer);
  if (answer.reason !== "payment_failed") return refused(refusedPaid(c, offer, answer));
  return refused(paymentFailed(c, offer, answer.settlement));
}

/** Submits a verified payment. If the hub claims a worker at once, this asks the facilitator to settle, and tells the hub the outcome. */
async function submitAndSettle(c: AppContext, hubCommit: HubCommit, { key, payload, requirements }: PaymentInput, payer: string): Promise<PaidAnswer> {
  const texts = { payload, requirements };
  const submitted = await askOrRelease(
    c,
    hubCommit,
    key,
    (hub, again) => hub.submit({ ...hubCommit(), settles: true, again }, key, payer, texts),
    askHubToStore,
  );
  if (!("settle" in submitted)) return submitted;
  const outcome = await settlePayment(c.get("settings"), payload, requirements);
  const { jobId, cancelToken } = submitted;
  return (await tellSettled(c, hubCommit, key, outcome)) ?? { ok: true, jobId, job: null, settlement: null, ...(cancelToken !== undefined && { cancelToken }) };
}

/**
 * Tells the hub the outcome of a settle call. Nobody else knows it: without it the hub has to ask the facilitator again, which may only say that the payment
 * was used. So a hub that is overloaded, or could not write it down, is told again for some seconds; the hub takes a second delivery for the first one [PY8].
 * Null if it cannot be told: it has the job since `submit`, so the job is accepted, and the outcome is unknown until the hub has asked.
 */
async function tellSettled(c: AppContext, hubCommit: HubCommit, key: string, outcome: SettleOutcome): Promise<PaidAnswer | null> {
  for (const pause of [0, ...TUNING.outcomePauses]) {
    if (pause > 0) await scheduler.wait(pause);
    try {
      const answer = await askHub(c.env, (hub) => hub.settled(hubCommit(), key, outcome));
      if (answer.ok || answer.reason !== "reservation_lost") return answer;
    } catch (error) {
      if (!(error instanceof HubUnavailable)) throw error;
    }
  }
  logError("outcome_not_told", {
    request_id: c.get("requestId"),
    outcome: outcome.kind,
    ...(outcome.kind === "settled" && { transaction: outcome.transaction }),
  });
  return null;
}

/** Answers a payment that the hub did not accept. Nothing was charged. */
function refusedPaid(c: AppContext, offer: Offer, answer: Refusal): Response {
  switch (answer.reason) {
    case "payment_already_used":
      return answer402(c, offer, answer.reason);
    case "reservation_lost":
      return refuse(c, "overloaded", RETRY_AFTER.overloaded);
    case "no_such_model":
    case "no_trusted_worker":
    case "rate_limited":
      return answerRefused(c, answer);
    default:
      return answerRefused(c, { reason: answer.reason });
  }
}

/** Answers a payment that the facilitator did not settle, with its answer. */
function paymentFailed(c: AppContext, offer: Offer, settlement: string): Response {
  setSettlement(c, settlement);
  return answer402(c, offer, failureText(settlement));
}

/** Returns `payment_failed` with the reason in the facilitator's answer, if it has another one. */
function failureText(settlement: string): string {
  const json = readJson(settlement);
  const reason = json.ok && isJsonObject(json.value) && typeof json.value.errorReason === "string" ? json.value.errorReason : null;
  return reason === null || reason === "payment_failed" ? "payment_failed" : `payment_failed: ${reason}`;
}

/** Returns the idempotency key that the payment of a request brings; null without one [API5]. */
export function keyInPayment(c: AppContext): string | null {
  return paymentIdentifier(paymentHeaders(c));
}

/** The payment headers of each request: several steps read them. One object per request, because what is read of the headers is remembered by it. */
const headersByRequest = new WeakMap<Request, PaymentHeaders>();

/** Returns the headers that may carry a payment [PY3]. */
function paymentHeaders(c: AppContext): PaymentHeaders {
  const known = headersByRequest.get(c.req.raw);
  if (known !== undefined) return known;
  const headers = { "PAYMENT-SIGNATURE": c.req.header("PAYMENT-SIGNATURE"), "X-PAYMENT": c.req.header("X-PAYMENT") };
  headersByRequest.set(c.req.raw, headers);
  return headers;
}

/** Answers 402 with the terms, in the header and in the body, and with the reason [PY4]. */
function answer402(c: AppContext, offer: Offer, error: string): Response {
  c.header("PAYMENT-REQUIRED", toBase64(utf8ToBytes(JSON.stringify(requiredHeader(offer, error)))));
  return c.json(paymentRequired(offer, error), 402);
}
