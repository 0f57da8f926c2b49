// The commit of a job. All its tries and payments share one Idempotency-Key. On a job's way: commit → pay.
import { isJsonObject } from "../protocol/json.ts";
import type { Quote } from "../protocol/rest.ts";
import { cancelSoon } from "./accepted-jobs.ts";
import { type Connection, expectShape, refusalOf, type RouterRequest, type RouterResponse } from "./connection.ts";
import { ComputeRouterError, RouterConnectionError, UnavailableError } from "./errors.ts";
import type { ClientSettings } from "./options.ts";
import { checkOffers, isUsedBefore, readPaymentHeaders, type Settlement, settlementIn } from "./payment.ts";
import { type Limit, retrying, untilAborted, untilDone } from "./retry.ts";
import { isCommitResponse, isPaymentRequired } from "./shapes.ts";

/** The most payments for one commit. */
const MAX_PAYMENTS = 2;

/**
 * The reasons of a 503 that prove that the router kept nothing of the commit [PY5]. `overloaded` is not one of them, because the router may have lost the
 * answer of its hub. Any other 5xx may come from a proxy in front of the router.
 */
const KEPT_NOTHING: readonly unknown[] = ["queue_full", "storage_full", "facilitator_unavailable", "too_many_held_payments"];

/** True if this error of a commit says by its reason that the router kept nothing of it. */
export function keptNothing(error: unknown): boolean {
  return error instanceof UnavailableError && KEPT_NOTHING.includes(error.reason);
}

/** An accepted commit. */
export type Committed = { jobId: string; cancelToken: string | null; price: string; settlement: Settlement };

/** What a commit sends. `cancelOn` is the caller's signal, if its abort cancels the job. */
type CommitCall = { body: string; idempotencyKey: string; userToken: string | undefined; cancelOn: AbortSignal | undefined };

/** The errors of commits of which the router may have kept something. */
const UNCLEAR = new WeakSet<ComputeRouterError>();

/**
 * True if a try of the commit that failed with this error may have been accepted. An `idempotencyKey` alone does not prove it: a payment that was refused has
 * one.
 */
export function mayBeAccepted(error: unknown): boolean {
  return error instanceof ComputeRouterError && UNCLEAR.has(error);
}

/**
 * One commit with its retries and payments. Every try has the same Idempotency-Key, so the router makes one job of all of them [API5], and a repeated payment
 * counts as the same payment [PY6].
 */
export class Commit {
  readonly #connection: Connection;
  readonly #settings: ClientSettings;
  readonly #quote: Quote;
  readonly #request: CommitCall;
  #price: string;
  #unclear = false;
  #paid = false;
  /** The headers of the last payment, which each further try sends again, and how many payments there were. */
  #payment = new Headers();
  #payments = 0;

  /** `earlier` is the commit that failed before with the same key: what it may have created, and what it paid with, is this one's too. */
  constructor(connection: Connection, settings: ClientSettings, quote: Quote, request: CommitCall, earlier?: Commit) {
    this.#connection = connection;
    this.#settings = settings;
    this.#quote = quote;
    this.#request = request;
    this.#price = quote.price;
    if (earlier === undefined) return;
    this.#unclear = earlier.#unclear;
    this.#paid = earlier.#paid;
    this.#payment = earlier.#payment;
    this.#payments = earlier.#payments;
    if (earlier.#payments > 0) this.#price = earlier.#price;
  }

  /**
   * True if a job may exist or money may have moved: the commit was accepted, a try is in progress, a try got no answer that excludes a job, or the payment
   * hook was called and did not decline. While this is true, a fallback must not run, because the user would pay for the work twice.
   */
  get mayHaveEffect(): boolean {
    return this.#unclear || this.#paid;
  }

  /** True if a payment was sent. */
  get isPaid(): boolean {
    return this.#paid;
  }

  /** Sends the commit until it is accepted or refused. If the job may exist in spite of an error, the error has the idempotency key. */
  async send(limit: Limit): Promise<Committed> {
    try {
      return await this.#send(limit);
    } catch (error) {
      throw this.marked(error);
    }
  }

  /** Adds the idempotency key to `error` if the commit may have an effect. */
  marked<E>(error: E): E {
    if (error instanceof ComputeRouterError && this.#unclear) UNCLEAR.add(error);
    if (error instanceof ComputeRouterError && this.mayHaveEffect) error.idempotencyKey = this.#request.idempotencyKey;
    return error;
  }

  async #send(limit: Limit): Promise<Committed> {
    for (;;) {
      const request = this.#requestWith(this.#payment);
      // In a map a commit that has paid is repeated here too, as soon as the router allows, because its payment expires.
      const leaves429 = this.#settings.retry.leaves429 === true && this.#payments === 0;
      const answer = await retrying({ ...this.#settings.retry, leaves429, waitsOut429: true }, limit, () => this.#try(request, limit));
      if (answer.status !== 402) {
        const { job_id: jobId } = expectShape(answer, request, isCommitResponse);
        return { jobId, cancelToken: cancelTokenIn(answer), price: this.#price, settlement: settlementIn(answer.headers) };
      }
      const payment = this.#payments >= MAX_PAYMENTS ? null : await this.#pay(answer, this.#payments + 1, limit);
      if (payment === null) throw refusalOf(answer);
      this.#payment = payment;
      this.#payments++;
    }
  }

  /** One try. It resolves for a 2xx of any shape and for 402. */
  async #try(request: RouterRequest, limit: Limit): Promise<RouterResponse> {
    const before = this.#unclear;
    this.#unclear = true;
    try {
      const answer = await this.#exchange(request, limit);
      if (isClearRefusal(answer)) this.#unclear = before;
      if (answer.status === 402 || answer.status < 300) return answer;
      throw refusalOf(answer);
    } catch (error) {
      if (error instanceof RouterConnectionError && error.reason === "connect") this.#unclear = before;
      throw error;
    }
  }

  /** One exchange. If the caller's abort cancels the job, the exchange goes on without the caller, because only its answer has the token of the job. */
  async #exchange(request: RouterRequest, limit: Limit): Promise<RouterResponse> {
    const { cancelOn } = this.#request;
    if (cancelOn === undefined) return this.#connection.exchange(request, limit);
    limit.signal.throwIfAborted();
    const own = new AbortController();
    const answer = this.#connection.exchange(request, untilAborted(own.signal));
    // It listens first: the abort below makes the exchange reject too, with an error of its own.
    const inTime = untilDone(answer, limit);
    const onEnd = (): void => {
      if (cancelOn.aborted) answer.then((late) => this.#cancelLate(late)).catch(() => {});
      else own.abort(limit.signal.reason);
    };
    limit.signal.addEventListener("abort", onEnd, { once: true });
    return inTime.finally(() => limit.signal.removeEventListener("abort", onEnd));
  }

  /** Cancels the job of an answer that nobody waits for any more. */
  #cancelLate(answer: RouterResponse): void {
    const cancelToken = cancelTokenIn(answer);
    if (cancelToken !== null && isCommitResponse(answer.body)) cancelSoon(this.#connection, this.#settings, { jobId: answer.body.job_id, cancelToken });
  }

  /** Asks the hook for payment headers; null if no payment is made: no hook, no offer, the hook declines, or the outcome of an earlier payment is unknown. */
  async #pay(answer: RouterResponse, number: number, limit: Limit): Promise<Headers | null> {
    const { payment, maxPrice } = this.#settings;
    const challenge = answer.body;
    if (payment === undefined || !isPaymentRequired(challenge) || challenge.accepts.length === 0) return null;
    // If the answer to the first payment was lost, it may have been accepted. Another signature would pay a second time.
    if (this.#paid && this.#unclear) return null;
    // The router looks up the key before it asks for money. It asks, so the lost unpaid try created no job.
    this.#unclear = false;
    const header = answer.headers.get("payment-required");
    if (maxPrice !== undefined) checkOffers(challenge, header, maxPrice);
    const before = this.#paid;
    // Set before the hook returns, because some hooks move the money themselves.
    this.#paid = true;
    const headers = readPaymentHeaders(await payment(challenge, { number, header, signal: limit.signal }));
    if (headers === null) this.#paid = before;
    else this.#price = challenge.accepts[0]?.price ?? this.#price;
    return headers;
  }

  #requestWith(payment: Headers): RouterRequest {
    const headers = new Headers(payment);
    headers.set("idempotency-key", this.#request.idempotencyKey);
    if (this.#request.userToken !== undefined) headers.set("x-user-token", this.#request.userToken);
    return { method: "POST", path: this.#quote.endpoint, headers, body: this.#request.body, timeout: this.#settings.commitTimeout };
  }
}

/** True if this answer proves that there is no job, and that no money has moved. */
function isClearRefusal({ status, body, headers }: RouterResponse): boolean {
  // An earlier call of a facilitator, or of a proxy before it, may have moved the money.
  if (status === 402 && isUsedBefore(headers)) return false;
  if (status === 503) return isJsonObject(body) && KEPT_NOTHING.includes(body.error);
  return status >= 400 && status < 500 && status !== 408;
}

/** The token that cancels the job of an accepted commit [JB13]; null if the router is older. */
function cancelTokenIn({ status, headers }: RouterResponse): string | null {
  return status < 300 ? headers.get("x-cancel-token") : null;
}
