import { describeBreak } from "./error-text.ts";
import { ComputeRouterError, ProtocolError, RouterConnectionError } from "./errors.ts";
import { type Limit, retrying, type RetryRule, within } from "./retry.ts";
import { refusalOf } from "./refusal.ts";
import { LIMITS } from "../protocol/limits.ts";
import { isShallowJson } from "../protocol/text.ts";

/** A whole answer of the router. */
export type RouterResponse = {
  status: number;
  headers: Headers;
  requestId: string | null;
  /** The parsed body; undefined when it could not be read as JSON. */
  body: unknown;
  /** Why `body` is undefined. */
  problem: string | null;
};

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

/** An answer, read to its end. */
async function wholeAnswer(response: Response): Promise<RouterResponse> {
  const reading = await readBody(response);
  return {
    status: response.status,
    headers: response.headers,
    requestId: response.headers.get("x-request-id"),
    body: reading.ok ? reading.value : undefined,
    problem: reading.ok ? null : reading.reason,
  };
}

/** The body of a 2xx answer of the right shape; throws the refusal or ProtocolError otherwise. */
export function expectShape<T>(answer: RouterResponse, { method, path }: RouterRequest, is: (body: unknown) => body is T): T {
  if (answer.status < 200 || answer.status > 299) throw refusalOf(answer);
  if (is(answer.body)) return answer.body;
  const reason = answer.problem ?? "unexpected_shape";
  throw new ProtocolError(`the router answered ${method} ${path} with a malformed body (${reason})`, {
    status: answer.status,
    requestId: answer.requestId,
    reason,
  });
}

/** The most bytes read of an answer: the largest output and as much again for what is around it. */
export const MAX_BYTES = 2 * LIMITS.outputBytes;
/** An output of the deepest nesting stands inside `result` of a job. */
const MAX_DEPTH = LIMITS.jsonDepth + 4;

/** What reading a body as JSON gave. */
export type BodyResult = { ok: true; value: unknown } | { ok: false; reason: "too_long" | "not_utf8" | "not_json" | "too_deep" };

/** Reads a whole body of bounded size as JSON. Rejects, with the platform's own error, only when the connection breaks. */
export async function readBody(response: Response): Promise<BodyResult> {
  const bytes = await readBytes(response);
  if (bytes === null) return { ok: false, reason: "too_long" };
  let text: string;
  try {
    // A replacement character would surface later as a receipt that does not hold.
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { ok: false, reason: "not_utf8" };
  }
  return readJsonText(text);
}

/** Parses a text that is JSON of a bounded depth. */
export function readJsonText(text: string): BodyResult {
  if (!isShallowJson(text, MAX_DEPTH)) return { ok: false, reason: "too_deep" };
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, reason: "not_json" };
  }
}

async function readBytes(response: Response): Promise<Uint8Array | null> {
  if (response.body === null) return new Uint8Array();
  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return joined(chunks, length);
      length += value.length;
      if (length > MAX_BYTES) return null;
      chunks.push(value);
    }
  } finally {
    // Not awaited: a peer that never stops sending would hold us here.
    reader.cancel().catch(() => {});
  }
}

function joined(chunks: Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
