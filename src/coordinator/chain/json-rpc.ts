// The JSON-RPC client for both chains: batched, bounded in bytes and time. Beside a job's way: stakes are read with it.
import * as z from "zod";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { readBytes, readJson, type Result } from "../../protocol/text.ts";
import { withSignal } from "../deadline.ts";

/** The RPC gave no answer at all. `reason` is a code: the URL may hold an API key, and what the other side wrote is not repeated. */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
  /** `timeout`, `unreachable`, `redirected`, `too_large`, `nonsense`, `http_` and the status, or `rpc_error_` and the code. */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
  }

  /** May be logged. */
  get safeReason(): string {
    return this.reason;
  }
}

/** One question to a chain. */
export type RpcCall = { method: string; params: readonly unknown[] };

/** The answer to one question; `reason` is a code. */
export type RpcResult = Result<unknown, string>;

const Refusal = z.object({ error: z.object({ code: z.int() }) });
const Answer = z.union([
  Refusal.extend({ id: z.number() }),
  // An absent result would pass as an unknown one.
  z.object({ id: z.number(), result: z.unknown() }).refine((answer) => answer.result !== undefined),
]);

/** Where and how long to ask. */
export type RpcOptions = { url: string; deadline?: number };

/**
 * Asks a chain's JSON-RPC, several questions in one batch, and gives the answers in the order of the questions.
 * No redirect is followed (it would carry the questions elsewhere), nothing is asked twice.
 * @throws {RpcFailure} when there is no answer to read
 */
export async function askRpc({ url, deadline = TIMING.stakeAnswer }: RpcOptions, calls: readonly RpcCall[]): Promise<RpcResult[]> {
  const questions = calls.map((call, id) => ({ jsonrpc: "2.0", id, ...call }));
  const json = await post(url, deadline, questions.length === 1 ? questions[0] : questions);
  const answers = new Map<number, RpcResult>();
  for (const entry of [json].flat()) {
    const answer = Answer.safeParse(entry);
    if (!answer.success) continue;
    // Of two answers to one question neither can be believed.
    if (answers.has(answer.data.id)) answers.set(answer.data.id, { ok: false, reason: "nonsense" });
    else answers.set(answer.data.id, read(answer.data));
  }
  if (answers.size === 0) {
    // An error without an id is about the request as a whole.
    const refusal = Refusal.safeParse(json);
    throw new RpcFailure(refusal.success ? `rpc_error_${refusal.data.error.code}` : "nonsense");
  }
  return calls.map((_, id) => answers.get(id) ?? { ok: false, reason: "nonsense" });
}

function read(answer: z.infer<typeof Answer>): RpcResult {
  return "error" in answer ? { ok: false, reason: `rpc_error_${answer.error.code}` } : { ok: true, value: answer.result };
}

async function post(url: string, deadline: number, question: unknown): Promise<unknown> {
  return await withSignal(deadline, async (signal) => {
    try {
      const headers = { "Content-Type": "application/json", Accept: "application/json" };
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(question), redirect: "manual", signal });
      if (response.status >= 300 && response.status < 400) throw new RpcFailure("redirected");
      if (!response.ok) throw new RpcFailure(`http_${response.status}`);
      const text = await boundedText(response, LIMITS.rpcAnswerBytes);
      if (text === null) throw new RpcFailure("too_large");
      const json = readJson(text);
      if (!json.ok) throw new RpcFailure("nonsense");
      return json.value;
    } catch (error) {
      if (error instanceof RpcFailure) throw error;
      throw new RpcFailure(signal.aborted ? "timeout" : "unreachable", { cause: error });
    }
  });
}

/** The body of an answer as text; null when it is longer than `most` bytes, of which then no more is read. @throws what the body's stream throws */
export async function boundedText(response: Response, most: number): Promise<string | null> {
  const bytes = await readBytes(response.body, most);
  return bytes && new TextDecoder().decode(bytes);
}
