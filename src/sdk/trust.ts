// Pairing of a user with workers: create a code, wait for the worker that claims it, list workers, claim a code. PRIVATE jobs run on paired workers only.
import type { Paired, PairingCode, TrustList } from "../protocol/rest.ts";
import { isLoopback } from "../protocol/text.ts";
import { CLIENT, TIMING } from "../protocol/times.ts";
import { fingerprintOf } from "../receipt/ed25519.ts";
import { checkFunction, checkInteger, checkNames, optionNames, wrong } from "./check.ts";
import type { Connection } from "./connection.ts";
import { type ComputeRouterError, InvalidOptionError, PairingExpiredError } from "./errors.ts";
import type { ClientSettings } from "./options.ts";
import { askedPause, isOutage, type Limit, MAX_DELAY, NO_RETRY, type RetryRule, sleep, untilAborted } from "./retry.ts";
import { checkCall, checkSignal, type PairingWaitOptions, type RequestOptions } from "./run-options.ts";
import { isPaired, isPairingCode, isTrustList } from "./shapes.ts";

/** The claim of a worker. */
export type PairingClaimInput = {
  /** Six hex characters; case does not matter. */
  pairing_code: string;
  /** The worker's ed25519 public key, 64 hex characters. */
  provider_pubkey: string;
  /** Proof of the key: base64 ed25519 over four lines: `compute-router/pair/v1`, network, code and key [TR4]. */
  signature?: string;
};

/** A code for the owner of a worker: the answer of the router with some fields added. */
export type PairingOffer = PairingCode & {
  /** The same as `pairing_code`. */
  code: string;
  /** The end of the code by the clock of this machine, so that a countdown is correct even if that clock is wrong. */
  expiresAt: Date;
  /** The router's page that turns a phone or a browser into the worker, with the code filled in. Show it as a link or a QR code. */
  workerUrl: string;
};

/** A worker that claimed a code. */
export type PairedWorker = {
  /** 64 hex characters. */
  publicKey: string;
  /** The key in words. The worker shows its owner the same words. */
  fingerprint: string;
  /** ISO 8601, by the router's clock. */
  pairedAt: string;
};

const CLAIM = optionNames<PairingClaimInput>({ pairing_code: 0, provider_pubkey: 0, signature: 0 });

/** Pairing of users and workers: PRIVATE jobs run only on workers that are paired with their user. */
export class Trust {
  readonly #connection: Connection;
  readonly #settings: ClientSettings;

  constructor(connection: Connection, settings: ClientSettings) {
    this.#connection = connection;
    this.#settings = settings;
  }

  /**
   * Creates a pairing code for this client's user. It is valid for one hour and can be used once. A failed request is not retried.
   *
   * @param options `signal`
   * @returns the code, its end, and the address of the page that turns a phone or a browser into the worker
   * @throws RateLimitedError while the user has five open codes
   * @example
   * const offer = await router.trust.create();
   * console.log(`compute-router worker pair ${offer.code}`, offer.workerUrl);
   * const { fingerprint } = await router.trust.waitForWorker(offer);
   */
  async create(options?: RequestOptions): Promise<PairingOffer> {
    const { userId, baseUrl } = this.#settings;
    const asked = Date.now();
    const made = await this.#post("/v1/trust/create", { user_id: userId }, isPairingCode, this.#userHeaders(), limitOf("trust.create", options));
    const code = made.pairing_code;
    const workerUrl = `${baseUrl}/worker?${new URLSearchParams({ code }).toString()}`;
    return { ...made, code, expiresAt: new Date(asked + TIMING.pairingCode), workerUrl };
  }

  /**
   * Waits until a worker has claimed a code. An outage only delays it. The router does not tell which worker claimed which code. If several codes are open,
   * the result is the newest pairing since this code was created.
   *
   * @param offer the return value of `create`
   * @param options `signal`, `interval`, the milliseconds between two requests, and `onPoll`, which learns of an outage
   * @returns the worker: its key, the fingerprint that its owner sees too, and when it was paired
   * @throws PairingExpiredError if no worker claimed the code within its hour
   * @example
   * const worker = await router.trust.waitForWorker(await router.trust.create());
   */
  async waitForWorker(offer: Pick<PairingOffer, "expires_at" | "expiresAt">, options?: PairingWaitOptions): Promise<PairedWorker> {
    const limit = limitOf("trust.waitForWorker", options);
    const interval = checkInteger("interval", options?.interval ?? undefined, 1, MAX_DELAY) ?? CLIENT.pairingInterval;
    const onPoll = checkFunction("onPoll", options?.onPoll ?? undefined) ?? (() => {});
    const madeAt = Date.parse(offer?.expires_at) - TIMING.pairingCode;
    const end = offer?.expiresAt?.getTime();
    if (!Number.isFinite(madeAt) || !Number.isFinite(end)) throw new InvalidOptionError("offer", "must be the return value of create()");
    for (;;) {
      const isLast = Date.now() >= end;
      const { worker, outage } = await this.#pairedSince(madeAt, limit);
      if (worker !== undefined) return worker;
      onPoll(outage);
      // The last request comes after the end, so that it finds a claim of the last seconds.
      if (isLast) throw new PairingExpiredError("no worker claimed the pairing code within its hour", { reason: "expired" });
      // Two milliseconds more, because a timer may fire one millisecond early.
      await sleep(Math.min(Math.max(interval, askedPause(outage)), Math.max(0, end - Date.now()) + 2), limit);
    }
  }

  /**
   * Claims a code for a worker.
   *
   * @param claim the code, the worker's public key and, optionally, its signature as proof of the key
   * @param options `signal`
   * @returns the user whose worker it is now
   * @throws BadRequestError with reason `invalid_code`, `already_claimed` or `expired`
   * @example
   * await router.trust.claim({ pairing_code: "3FA9C1", provider_pubkey: key.publicKey });
   */
  async claim(claim: PairingClaimInput, options?: RequestOptions): Promise<Paired> {
    const given = checkNames("fields of a claim", claim, CLAIM);
    if (typeof given?.pairing_code !== "string") throw wrong("pairing_code", "must be a string", claim?.pairing_code);
    if (typeof given.provider_pubkey !== "string") throw wrong("provider_pubkey", "must be a string", claim.provider_pubkey);
    return this.#post("/v1/trust/claim", given, isPaired, new Headers(), limitOf("trust.claim", options));
  }

  /**
   * Lists the workers that are paired with this client's user.
   *
   * @param options `signal`
   * @returns their public keys and when each was paired, newest first
   * @example
   * const { providers } = await router.trust.list();
   */
  async list(options?: RequestOptions): Promise<TrustList> {
    return this.#list(this.#settings.retry, limitOf("trust.list", options));
  }

  /** Reads the list once. `outage` is a temporary failure. */
  async #pairedSince(since: number, limit: Limit): Promise<{ worker?: PairedWorker; outage: ComputeRouterError | null }> {
    try {
      const { providers } = await this.#list(NO_RETRY, limit);
      const found = providers.find(({ paired_at }) => Date.parse(paired_at) >= since);
      if (found === undefined) return { outage: null };
      return { worker: { publicKey: found.provider_pubkey, fingerprint: fingerprintOf(found.provider_pubkey), pairedAt: found.paired_at }, outage: null };
    } catch (error) {
      limit.signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      return { outage: error };
    }
  }

  async #list(retry: RetryRule, limit: Limit): Promise<TrustList> {
    const { requestTimeout, userId } = this.#settings;
    const path = `/v1/trust/list?${new URLSearchParams({ user_id: userId }).toString()}`;
    return this.#connection.get(path, requestTimeout, retry, limit, isTrustList, this.#userHeaders());
  }

  async #post<T>(path: string, body: object, is: (value: unknown) => value is T, headers: Headers, limit: Limit): Promise<T> {
    const request = { method: "POST", path, headers, body: JSON.stringify(body), timeout: this.#settings.requestTimeout } as const;
    return this.#connection.ask(request, limit, is);
  }

  #userHeaders(): Headers {
    const { userToken } = this.#settings;
    return new Headers(userToken === undefined ? {} : { "x-user-token": userToken });
  }
}

function limitOf(call: Parameters<typeof checkCall>[0], options: RequestOptions | undefined): Limit {
  return untilAborted(checkSignal(checkCall(call, options)));
}

/** True if a URL leads to the machine that opens it. A phone that scans such a URL would reach itself. */
export function isLocalAddress(url: string): boolean {
  return isLoopback(new URL(url).hostname);
}

/** The rest of a time as minutes and seconds, for example 59:58. A started second counts. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  return [Math.floor(seconds / 60), seconds % 60].map((part) => String(part).padStart(2, "0")).join(":");
}
