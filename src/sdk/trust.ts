import type { Paired, PairingCode, TrustList } from "../protocol/trust.ts";
import { checkNames } from "./check.ts";
import type { Connection } from "./connection.ts";
import { InvalidOptionError } from "./errors.ts";
import { untilAborted } from "./limit.ts";
import type { Settings } from "./options.ts";
import { checkSignal, OPTION_NAMES, type RequestOptions } from "./run-options.ts";
import { isPaired, isPairingCode, isTrustList } from "./shapes.ts";

/** What a worker claims a pairing with. */
export type PairingClaimInput = {
  /** Six hex characters; case does not matter. */
  pairing_code: string;
  /** The worker's ed25519 public key, 64 hex characters. */
  provider_pubkey: string;
  /** Proof of the key: base64 ed25519 over `compute-router/pair/v1`, network, code and key, one a line [TR4]. */
  signature?: string;
};

/** Pairing of users and workers: PRIVATE jobs run only on workers that are paired with their user. */
export class Trust {
  readonly #connection: Connection;
  readonly #settings: Settings;

  constructor(connection: Connection, settings: Settings) {
    this.#connection = connection;
    this.#settings = settings;
  }

  /** A new pairing code for this client's user, valid for one hour, usable once. Never repeated by itself. Throws RateLimitedError at five open codes. */
  async create(options?: RequestOptions): Promise<PairingCode> {
    return this.#post("/v1/trust/create", { user_id: this.#settings.userId }, isPairingCode, this.#userHeaders(), options);
  }

  /** Claims a code for a worker. Throws BadRequestError with reason `invalid_code`, `already_claimed` or `expired`. */
  async claim(claim: PairingClaimInput, options?: RequestOptions): Promise<Paired> {
    checkNames("claim", claim, ["pairing_code", "provider_pubkey", "signature"]);
    if (typeof claim?.pairing_code !== "string") throw new InvalidOptionError("pairing_code", "must be a string");
    if (typeof claim.provider_pubkey !== "string") throw new InvalidOptionError("provider_pubkey", "must be a string");
    return this.#post("/v1/trust/claim", claim, isPaired, new Headers(), options);
  }

  /** The workers that this client's user is paired with. */
  async list(options?: RequestOptions): Promise<TrustList> {
    const { requestTimeout, retry, userId } = this.#settings;
    const path = `/v1/trust/list?${new URLSearchParams({ user_id: userId }).toString()}`;
    return this.#connection.get(path, requestTimeout, retry, this.#limit(options), isTrustList, this.#userHeaders());
  }

  async #post<T>(path: string, body: object, is: (value: unknown) => value is T, headers: Headers, options: RequestOptions | undefined): Promise<T> {
    const request = { method: "POST", path, headers, body: JSON.stringify(body), timeout: this.#settings.requestTimeout } as const;
    return this.#connection.ask(request, this.#limit(options), is);
  }

  #limit(options: RequestOptions | undefined): ReturnType<typeof untilAborted> {
    checkNames("call options", options, OPTION_NAMES.request);
    return untilAborted(checkSignal(options));
  }

  #userHeaders(): Headers {
    const { userToken } = this.#settings;
    return new Headers(userToken === undefined ? {} : { "x-user-token": userToken });
  }
}
