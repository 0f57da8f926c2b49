// The JSON-RPC client for both chains: batched, with limits on bytes and time. Stakes and settlements are read with it.
import * as z from "zod";
import { readJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";
import { readBytes } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { withSignal } from "../deadline.ts";

/** The RPC gave no usable answer. `reason` is a code: the message must not contain the URL, which may have an API key, nor the text of the server. */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
  /**
   * `timeout`, `unreachable`, `redirected`, `too_large`, `invalid_response` (not in the expected form), `wrong_chain`, `http_` and the status, or `rpc_error_`
   * and the code.
   */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
  }

  /** The reason, which is safe to log. */
  get safeReason(): string {
    return this.reason;
  }
}

/** One JSON-RPC request. */
export type RpcCall = { method: string; params: readonly unknown[] };

/** The result of one request. `reason` is a code. */
export type RpcResult = Result<unknown, string>;

const Refusal = z.object({ error: z.object({ code: z.int() }) });
const Answer = z.union([
  Refusal.extend({ id: z.number() }),
  // `z.unknown()` also accepts an absent result.
  z.object({ id: z.number(), result: z.unknown() }).refine((answer) => answer.result !== undefined),
]);

/** The URL to ask, and the maximum time in milliseconds. */
export type RpcOptions = { url: string; deadline?: number };

/**
 * Sends `calls` to a JSON-RPC server, in one batch, and returns the results in the same order.
 * It follows no redirect, which would send the requests to another server, and it never retries.
 * @throws {RpcFailure} if there is no usable answer
 */
export async function askRpc({ url, deadline = TIMING.stakeAnswer }: RpcOptions, calls: readonly RpcCall[]): Promise<RpcResult[]> {
  const requests = calls.map((call, id) => ({ jsonrpc: "2.0", id, ...call }));
  const json = await post(url, deadline, requests.length === 1 ? requests[0] : requests);
  const answers = new Map<number, RpcResult>();
  for (const entry of [json].flat()) {
    const answer = Answer.safeParse(entry);
    if (!answer.success) continue;
    // If one request has two answers, neither is reliable.
    if (answers.has(answer.data.id)) answers.set(answer.data.id, { ok: false, reason: "invalid_response" });
    else answers.set(answer.data.id, read(answer.data));
  }
  if (answers.size === 0) {
    // An error without an id is about the whole batch.
    const refusal = Refusal.safeParse(json);
    throw new RpcFailure(refusal.success ? `rpc_error_${refusal.data.error.code}` : "invalid_response");
  }
  return calls.map((_, id) => answers.get(id) ?? { ok: false, reason: "invalid_response" });
}

function read(answer: z.infer<typeof Answer>): RpcResult {
  return "error" in answer ? { ok: false, reason: `rpc_error_${answer.error.code}` } : { ok: true, value: answer.result };
}

async function post(url: string, deadline: number, body: unknown): Promise<unknown> {
  return await withSignal(deadline, async (signal) => {
    try {
      const headers = { "Content-Type": "application/json", Accept: "application/json" };
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), redirect: "manual", signal });
      if (response.status >= 300 && response.status < 400) throw new RpcFailure("redirected");
      if (!response.ok) throw new RpcFailure(`http_${response.status}`);
      const text = await boundedText(response, LIMITS.rpcAnswerBytes);
      if (text === null) throw new RpcFailure("too_large");
      const json = readJson(text);
      if (!json.ok) throw new RpcFailure("invalid_response");
      return json.value;
    } catch (error) {
      if (error instanceof RpcFailure) throw error;
      throw new RpcFailure(signal.aborted ? "timeout" : "unreachable", { cause: error });
    }
  });
}

/** The body of an answer as text; null if it is longer than `most` bytes, and then the rest is not read. @throws what the body's stream throws */
export async function boundedText(response: Response, most: number): Promise<string | null> {
  if (isAnnounced(response, most)) return await response.text();
  const bytes = await readBytes(response.body, most);
  return bytes && new TextDecoder().decode(bytes);
}

/**
 * True if the body has a Content-Length of at most `most` and is not compressed: no transport delivers more bytes than that, so the body can be read in one
 * call, which costs less than reading it in parts.
 */
function isAnnounced({ headers }: Response, most: number): boolean {
  const length = headers.get("Content-Length") ?? "";
  return /^\d+$/.test(length) && Number(length) <= most && !headers.has("Content-Encoding") && !headers.has("Transfer-Encoding");
}
