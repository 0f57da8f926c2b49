// The HTTP side of one router: sends requests within limits, reads the answers to their end within bounds, checks their shape, and turns a refusal into an
// error of the SDK. It knows nothing about jobs. On a job's way: every request of the client.
import { isJsonObject, readJson } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Result } from "../protocol/result.ts";
import { readBytes } from "../protocol/text.ts";
import {
  BadRequestError,
  ComputeRouterError,
  ConflictError,
  type ErrorDetails,
  NoSuchModelError,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentRequiredError,
  ProtocolError,
  RateLimitedError,
  RouterConnectionError,
  UnavailableError,
} from "./errors.ts";
import { isModelName } from "./job-input.ts";
import type { PaymentChallenge } from "./payment.ts";
import { type Limit, readRetryAfter, retrying, type RetryRule, within } from "./retry.ts";
import { isPaymentRequired, isUuid } from "./shapes.ts";

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

/** A complete answer of the router. */
export type RouterResponse = {
  status: number;
  headers: Headers;
  requestId: string | null;
  /** The parsed body; undefined if it is not JSON. */
  body: unknown;
  /** Why `body` is undefined. */
  problem: string | null;
};

/** Reads an answer to its end. */
async function wholeAnswer(response: Response): Promise<RouterResponse> {
  const json = await readBody(response);
  return {
    status: response.status,
    headers: response.headers,
    requestId: response.headers.get("x-request-id"),
    body: json.ok ? json.value : undefined,
    problem: json.ok ? null : json.reason,
  };
}

/** Returns the body of a 2xx answer that passes the guard `is`. Throws the refusal for another status, and ProtocolError for another shape. */
export function expectShape<T>(answer: RouterResponse, { method, path }: { method: string; path: string }, is: (body: unknown) => body is T): T {
  if (answer.status < 200 || answer.status > 299) throw refusalOf(answer);
  if (is(answer.body)) return answer.body;
  const reason = answer.problem ?? "unexpected_shape";
  throw new ProtocolError(`the router answered ${method} ${path} with a malformed body (${reason})`, {
    status: answer.status,
    requestId: answer.requestId,
    reason,
  });
}

/** The SDK's error for an answer outside 2xx [API1, SPEC "Errors"]. */
export function refusalOf(answer: RouterResponse): ComputeRouterError {
  const { status, body } = answer;
  const text = errorText(body);
  const details: ErrorDetails = { status, requestId: answer.requestId, reason: text };
  const message = `the router answered ${status}${text === undefined ? "" : `: ${text}`}`;
  if (status >= 500) return new UnavailableError(message, retryAfter(answer), details);
  switch (status) {
    case 402:
      if (!isPaymentRequired(body)) return new ProtocolError(`${message}, without ways to pay`, details);
      return new PaymentRequiredError(`${message}${pricesOf(body)}`, body.accepts, details);
    case 404:
      return text === "no_such_model" && isJsonObject(body) ? new NoSuchModelError(modelsIn(body.models), details) : new NotFoundError(message, details);
    case 409:
      return new ConflictError(message, details);
    case 422:
      if (text !== "no_trusted_worker") return new BadRequestError(message, details);
      return uncharged(new NoTrustedWorkerError(isJsonObject(body) && isUuid(body.job_id) ? body.job_id : null, details));
    case 429:
      return new RateLimitedError(message, retryAfter(answer), details);
    default:
      return status >= 400 ? new BadRequestError(message, details) : new ProtocolError(message, details);
  }
}

function pricesOf({ accepts }: PaymentChallenge): string {
  return accepts.length === 0 ? "" : ` (${accepts.map(({ price, network }) => `${price} on ${network}`).join(", or ")})`;
}

/** The names of a list of models. They are texts of strangers, so anything else is left out. */
function modelsIn(models: unknown): string[] {
  return Array.isArray(models) ? models.filter(isModelName) : [];
}

/** A commit that was refused is never charged [PY5]. */
function uncharged(error: NoTrustedWorkerError): NoTrustedWorkerError {
  error.charged = false;
  return error;
}

function retryAfter(answer: RouterResponse): number | null {
  return readRetryAfter(answer.headers.get("retry-after"), Date.now());
}

/** The `error` of a body, short enough for one log line. */
function errorText(body: unknown): string | undefined {
  if (!isJsonObject(body) || typeof body.error !== "string") return undefined;
  return oneLine(body.error);
}

/** The most bytes that are read of an answer: twice the largest output, because other members surround it. */
export const MAX_BYTES = 2 * LIMITS.outputBytes;
/** The deepest answer: the deepest output inside `result` of a job. */
const MAX_DEPTH = LIMITS.jsonDepth + 4;

/** Result of {@link readBody}. */
export type BodyResult = Result<unknown, "too_long" | "not_utf8" | "not_json" | "too_deep">;

/** Reads a body of bounded size as JSON. It rejects only if the connection breaks, with the error of the platform's fetch. */
export async function readBody(response: Response): Promise<BodyResult> {
  const bytes = await readBytes(response.body, MAX_BYTES);
  if (bytes === null) return { ok: false, reason: "too_long" };
  let text: string;
  try {
    // With a replacement character the receipt would later appear to be invalid.
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { ok: false, reason: "not_utf8" };
  }
  return readJsonText(text);
}

/** Parses JSON text of a bounded depth. */
export function readJsonText(text: string): BodyResult {
  const json = readJson(text, { depth: MAX_DEPTH });
  if (json.ok) return json;
  return { ok: false, reason: json.reason === "too_deep" ? json.reason : "not_json" };
}

/** Untrusted text as one printable line of at most `max` characters. */
export function oneLine(text: string, max = 300): string {
  // Formatting characters and line separators go too, because they could reorder the line where the error is printed.
  const line = text.replaceAll(/[\s\p{C}\p{Zl}\p{Zp}]+/gu, " ").trim();
  return line.length > max ? `${line.slice(0, max).toWellFormed()}…` : line;
}

/** The `code` of an error and of the causes below it. */
export function errorCodes(error: unknown): string[] {
  const codes: string[] = [];
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if ("code" in at && typeof at.code === "string") codes.push(at.code);
  }
  return codes;
}

/** Error codes that prove that no byte of the request was sent: of Node, Deno and undici, then of Bun. */
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused"]);

/** Describes why a `fetch` to `place` got no answer. The reason `connect` means that nothing was sent; after `broken` the request may have arrived. */
export function describeBreak(place: string, cause: unknown): { message: string; reason: "connect" | "broken" } {
  const codes = errorCodes(cause);
  const unsent = codes.some((code) => NEVER_SENT.has(code));
  const [code] = codes;
  const why = code === undefined ? "" : ` (${code})`;
  return unsent ? { message: `cannot connect to ${place}${why}`, reason: "connect" } : { message: `the connection to ${place} broke${why}`, reason: "broken" };
}
