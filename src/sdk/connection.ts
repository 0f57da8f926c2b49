// The HTTP side of one router. It knows no jobs: it sends requests within limits and hands on answers (response.ts).
import { describeBreak } from "./error-text.ts";
import { ComputeRouterError, ProtocolError, RouterConnectionError } from "./errors.ts";
import { type Limit, retrying, type RetryRule, within } from "./retry.ts";
import { expectShape, refusalOf, type RouterResponse, wholeAnswer } from "./response.ts";

/** One request; `timeout` in milliseconds is for the whole exchange, body included. */
export type RouterRequest = { method: "GET" | "POST"; path: string; headers?: Headers; body?: string; timeout: number };

/** The HTTP side of one router: bounded, without redirects, each answer read to its end. */
export class Connection {
  readonly #baseUrl: string;
  readonly #fetch: typeof fetch;

  constructor(baseUrl: string, fetchFunction: typeof fetch) {
    this.#baseUrl = baseUrl;
    this.#fetch = fetchFunction;
  }

  /** Sends once and returns whatever is answered. Throws RouterConnectionError when there is no whole answer, ProtocolError for a redirect. */
  async exchange(request: RouterRequest, limit: Limit): Promise<RouterResponse> {
    const expired = (): Error => new RouterConnectionError(`no answer from ${this.#baseUrl} within ${request.timeout} ms`, { reason: "timeout" });
    return within(request.timeout, limit, expired, async ({ signal }) => this.#heard(async () => wholeAnswer(await this.#send(request, signal))));
  }

  /** Sends a GET whose 2xx answer is read as it comes; `timeout` is for its beginning. Throws as `ask` does for any other answer. */
  async open(request: RouterRequest, limit: Limit): Promise<Response> {
    const expired = (): Error => new RouterConnectionError(`no answer from ${this.#baseUrl} within ${request.timeout} ms`, { reason: "timeout" });
    return within(request.timeout, limit, expired, async ({ signal }) =>
      this.#heard(async () => {
        const response = await this.#send(request, signal, "text/event-stream");
        if (response.ok) return response;
        throw refusalOf(await wholeAnswer(response));
      }),
    );
  }

  /** One exchange whose answer must be 2xx and of the shape that `is` knows. Throws what `refusalOf` makes of other answers, and ProtocolError. */
  async ask<T>(request: RouterRequest, limit: Limit, is: (body: unknown) => body is T): Promise<T> {
    return expectShape(await this.exchange(request, limit), request, is);
  }

  /** `ask` for a GET, repeated on transient failures. */
  async get<T>(path: string, timeout: number, rule: RetryRule, limit: Limit, is: (body: unknown) => body is T, headers = new Headers()): Promise<T> {
    return retrying(rule, limit, () => this.ask({ method: "GET", path, headers, timeout }, limit, is));
  }

  /** What `talk` gives; the platform's own errors become RouterConnectionError. */
  async #heard<T>(talk: () => Promise<T>): Promise<T> {
    try {
      return await talk();
    } catch (cause) {
      if (cause instanceof ComputeRouterError) throw cause;
      const { message, reason } = describeBreak(this.#baseUrl, cause);
      throw new RouterConnectionError(message, { reason, cause });
    }
  }

  async #send({ method, path, headers = new Headers(), body }: RouterRequest, signal: AbortSignal, accept = "application/json"): Promise<Response> {
    headers.set("accept", accept);
    // Called without a receiver: a browser's fetch refuses any other `this`.
    const send = this.#fetch;
    // A redirect would carry job and payment to a host nobody chose; Workers do not know "error".
    const init: RequestInit = { method, headers, redirect: "manual", signal };
    if (body !== undefined) {
      headers.set("content-type", "application/json");
      init.body = body;
    }
    const response = await send(this.#baseUrl + path, init);
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      await response.body?.cancel();
      const requestId = response.headers.get("x-request-id");
      throw new ProtocolError(`the router answered ${method} ${path} with a redirect`, { status: response.status, requestId });
    }
    return response;
  }
}
