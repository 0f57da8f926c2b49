// An answer of the router: read to its end within bounds, and the error that it stands for where it is not the one that was asked for.
import { LIMITS } from "../protocol/limits.ts";
import { isJsonObject, isShallowJson } from "../protocol/text.ts";
import { oneLine } from "./error-text.ts";
import {
  BadRequestError,
  type ComputeRouterError,
  ConflictError,
  type ErrorDetails,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentRequiredError,
  ProtocolError,
  RateLimitedError,
  UnavailableError,
} from "./errors.ts";
import { readRetryAfter } from "./retry.ts";
import { isPaymentRequired, isUuid } from "./shapes.ts";

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

/** An answer, read to its end. */
export async function wholeAnswer(response: Response): Promise<RouterResponse> {
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

/** The error that an answer outside 2xx stands for [API1, SPEC "Errors"]. */
export function refusalOf(answer: RouterResponse): ComputeRouterError {
  const { status, body } = answer;
  const text = errorText(body);
  const details: ErrorDetails = { status, requestId: answer.requestId, reason: text };
  const message = `the router answered ${status}${text === undefined ? "" : `: ${text}`}`;
  if (status >= 500) return new UnavailableError(message, retryAfter(answer), details);
  switch (status) {
    case 402:
      return isPaymentRequired(body) ? new PaymentRequiredError(message, body.accepts, details) : new ProtocolError(`${message}, without ways to pay`, details);
    case 404:
      return new NotFoundError(message, details);
    case 409:
      return new ConflictError(message, details);
    case 422:
      if (text !== "no_trusted_worker") return new BadRequestError(message, details);
      return new NoTrustedWorkerError(isJsonObject(body) && isUuid(body.job_id) ? body.job_id : null, details);
    case 429:
      return new RateLimitedError(message, retryAfter(answer), details);
    default:
      return status >= 400 ? new BadRequestError(message, details) : new ProtocolError(message, details);
  }
}

function retryAfter(answer: RouterResponse): number | null {
  return readRetryAfter(answer.headers.get("retry-after"), Date.now());
}

/** The `error` of a body, short enough for a log line. */
function errorText(body: unknown): string | undefined {
  if (!isJsonObject(body) || typeof body.error !== "string") return undefined;
  return oneLine(body.error);
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
