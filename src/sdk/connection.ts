// The HTTP side of one router. It knows nothing about jobs: it sends requests within limits and returns the answers (response.ts).
import { describeBreak, expectShape, refusalOf, type RouterResponse, wholeAnswer } from "./response.ts";
import { ComputeRouterError, ProtocolError, RouterConnectionError } from "./errors.ts";
import { type Limit, retrying, type RetryRule, within } from "./retry.ts";

/** One request; `timeout` in milliseconds covers the whole exchange, including the body. */
export type RouterRequest = { method: "GET" | "POST" | "DELETE"; path: string; headers?: Headers; body?: string; timeout: number };

/** The HTTP side of one router. Answers are bounded and read to their end, and redirects are not followed. */
export class Connection {
  readonly #baseUrl: string;
  readonly #fetch: typeof fetch;

  constructor(baseUrl: string, fetchFunction: typeof fetch) {
    this.#baseUrl = baseUrl;
    this.#fetch = fetchFunction;
  }

  /** Sends once and returns the answer, whatever its status. Throws RouterConnectionError if there is no complete answer, and ProtocolError for a redirect. */
  async exchange(request: RouterRequest, limit: Limit): Promise<RouterResponse> {
    const expired = (): Error => new RouterConnectionError(`no answer from ${this.#baseUrl} within ${request.timeout} ms`, { reason: "timeout" });
    return within(request.timeout, limit, expired, async ({ signal }) => this.#named(async () => wholeAnswer(await this.#send(request, signal))));
  }

  /** Sends a GET and returns a 2xx response whose body is not read yet; `timeout` covers the headers only. Throws as `ask` does for any other answer. */
  async open(request: RouterRequest, limit: Limit): Promise<Response> {
    const expired = (): Error => new RouterConnectionError(`no answer from ${this.#baseUrl} within ${request.timeout} ms`, { reason: "timeout" });
    return within(request.timeout, limit, expired, async ({ signal }) =>
      this.#named(async () => {
        const response = await this.#send(request, signal, "text/event-stream");
        if (response.ok) return response;
        throw refusalOf(await wholeAnswer(response));
      }),
    );
  }

  /** One exchange whose answer must be 2xx and pass the guard `is`. Throws the error of `refusalOf` for other statuses, and ProtocolError for another shape. */
  async ask<T>(request: RouterRequest, limit: Limit, is: (body: unknown) => body is T): Promise<T> {
    return expectShape(await this.exchange(request, limit), request, is);
  }

  /** `ask` for a GET, with retries after transient failures. */
  async get<T>(path: string, timeout: number, rule: RetryRule, limit: Limit, is: (body: unknown) => body is T, headers = new Headers()): Promise<T> {
    return retrying(rule, limit, () => this.ask({ method: "GET", path, headers, timeout }, limit, is));
  }

  /** Runs `exchange` and turns errors of the platform's fetch into RouterConnectionError. */
  async #named<T>(exchange: () => Promise<T>): Promise<T> {
    try {
      return await exchange();
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
    // A redirect would send job and payment to a host that the user did not choose. Cloudflare Workers do not support redirect: "error".
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
