// The commit of a job, the first step on its way: sent, repeated and paid for under one Idempotency-Key.
import type { Quote } from "../protocol/rest.ts";
import { isJsonObject } from "../protocol/text.ts";
import type { Connection, RouterRequest } from "./connection.ts";
import { ComputeRouterError, RouterConnectionError } from "./errors.ts";
import { type Limit, retrying } from "./retry.ts";
import type { ClientSettings } from "./options.ts";
import { checkOffers, type PaymentChallenge, readPaymentHeaders } from "./payment.ts";
import { expectShape, refusalOf, type RouterResponse } from "./response.ts";
import { isCommitResponse, isPaymentRequired } from "./shapes.ts";

/** Payments made for one commit at most. */
const MAX_PAYMENTS = 2;

/**
 * The 503s after which the router has kept nothing of the commit [PY5]. `overloaded` is not one of them: the router may have lost its hub's
 * answer. Any other 5xx may come from something in front of it.
 */
const KEPT_NOTHING: readonly unknown[] = ["queue_full", "facilitator_unavailable"];

/** What a commit came to. */
export type Committed = { jobId: string; price: string };

/**
 * One commit: sent, repeated, paid for. Every try carries the same Idempotency-Key, so the router makes one job of all of them [API5], and a
 * repeated payment is the same payment [PY6].
 */
export class Commit {
  readonly #connection: Connection;
  readonly #settings: ClientSettings;
  readonly #quote: Quote;
  readonly #request: { body: string; idempotencyKey: string; userToken: string | undefined };
  #price: string;
  #unclear = false;
  #paid = false;

  constructor(
    connection: Connection,
    settings: ClientSettings,
    quote: Quote,
    request: { body: string; idempotencyKey: string; userToken: string | undefined },
  ) {
    this.#connection = connection;
    this.#settings = settings;
    this.#quote = quote;
    this.#request = request;
    this.#price = quote.price;
  }

  /**
   * Whether a job may exist or money may have moved: the commit was accepted, or a try is under way or got no answer that rules a job out,
   * or the payment hook was asked and did not decline. While this holds no fallback may answer: the user would pay for the work twice.
   */
  get mayCount(): boolean {
    return this.#unclear || this.#paid;
  }

  /** Sends the commit until it is accepted or refused. An error after which the job may exist all the same carries the idempotency key. */
  async send(limit: Limit): Promise<Committed> {
    try {
      return await this.#send(limit);
    } catch (error) {
      throw this.marked(error);
    }
  }

  /** `error`, with the idempotency key in it if the commit may count. */
  marked<E>(error: E): E {
    if (error instanceof ComputeRouterError && this.mayCount) error.idempotencyKey = this.#request.idempotencyKey;
    return error;
  }

  async #send(limit: Limit): Promise<Committed> {
    let payment = new Headers();
    for (let number = 1; ; number++) {
      const request = this.#requestWith(payment);
      const answer = await retrying(this.#settings.retry, limit, () => this.#try(request, limit));
      if (answer.status !== 402) return { jobId: expectShape(answer, request, isCommitResponse).job_id, price: this.#price };
      const paid = number > MAX_PAYMENTS ? null : await this.#pay(answer, number, limit);
      if (paid === null) throw refusalOf(answer);
      payment = paid;
    }
  }

  /** One try. Resolves for a 2xx of any shape and for 402. */
  async #try(request: RouterRequest, limit: Limit): Promise<RouterResponse> {
    const before = this.#unclear;
    this.#unclear = true;
    try {
      const answer = await this.#connection.exchange(request, limit);
      if (isClearRefusal(answer)) this.#unclear = before;
      if (answer.status === 402 || answer.status < 300) return answer;
      throw refusalOf(answer);
    } catch (error) {
      if (error instanceof RouterConnectionError && error.reason === "connect") this.#unclear = before;
      throw error;
    }
  }

  /** Headers that pay; null when there is no paying: no hook, nothing offered, the hook declines, or an earlier payment's fate is unclear. */
  async #pay(answer: RouterResponse, number: number, limit: Limit): Promise<Headers | null> {
    const { payment, maxPrice } = this.#settings;
    const challenge = answer.body;
    if (payment === undefined || !isPaymentRequired(challenge) || !hasOffer(challenge)) return null;
    // Another signature could pay a second time for what a lost answer had accepted.
    if (this.#paid && this.#unclear) return null;
    // The router looks the key up before it asks for money, so a lost unpaid try has made no job.
    this.#unclear = false;
    const header = answer.headers.get("payment-required");
    if (maxPrice !== undefined) checkOffers(challenge, header, maxPrice);
    const before = this.#paid;
    // From here on, not only once headers come back: some hooks move the money themselves.
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

/** Whether after this answer there certainly is no job. */
function isClearRefusal({ status, body }: RouterResponse): boolean {
  if (status === 503) return isJsonObject(body) && KEPT_NOTHING.includes(body.error);
  return status >= 400 && status < 500 && status !== 408;
}

function hasOffer(challenge: PaymentChallenge): boolean {
  return challenge.accepts.length > 0;
}
