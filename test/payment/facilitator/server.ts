// The facilitator of the payment lab: a real one over HTTP that can be made to fail.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { getBase58Decoder } from "@solana/kit";
import type { x402Facilitator } from "@x402/core/facilitator";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { decodeTransactionFromPayload, getTokenPayerFromTransaction } from "@x402/svm";
import { type Listener, listen, readText, sendJson } from "../loopback.ts";
import { type Call, type CallEnd, CallLog } from "./call-log.ts";
import { type Fault, Faults, type Loss, type Operation } from "./faults.ts";
import { type Chains, facilitatorOf, type FacilitatorVersion, impatient } from "./schemes.ts";

const GARBAGE = "<!doctype html><title>Bad gateway</title>";
const ROUTES: Readonly<Record<string, Operation>> = { "GET /supported": "supported", "POST /verify": "verify", "POST /settle": "settle" };

/** What the facilitator starts with. */
export type FacilitatorOptions = {
  /** 0 takes a free one. */
  port?: number;
  /** How long a settlement waits for its EVM receipt before it says `settlement_pending`, or `transaction_failed` before 2.27. Default 15 s. */
  confirmationTimeoutMs?: number;
  /** The version of x402's schemes. Default the newest. */
  version?: FacilitatorVersion;
};

/** A real x402 facilitator on HTTP that can be made to fail. */
export type Facilitator = {
  /** Stays the same through `down` and `up`. */
  readonly url: string;
  readonly faults: Faults;
  readonly log: CallLog;
  readonly isUp: boolean;
  /** Refuses connections and cuts those that there are. */
  down(): Promise<void>;
  up(): Promise<void>;
  /**
   * Loses what it keeps in memory (duplicates, pending settlements), as a restart does. It comes back on the given version of x402's schemes, if there is one.
   */
  forget(version?: FacilitatorVersion): void;
  /** Resolves once no call is under way, those included whose callers have left: a settlement goes on without its caller. */
  atRest(): Promise<void>;
  stop(): Promise<void>;
};

type Work = { operation: Operation; payment: PaymentPayload; requirements: PaymentRequirements };

/** Starts it over the chains given. @throws when the port is taken */
export async function startFacilitator(chains: Chains, options: FacilitatorOptions = {}): Promise<Facilitator> {
  let version = options.version ?? "2.27";
  const make = (): x402Facilitator => facilitatorOf(chains, version, options.confirmationTimeoutMs ?? 15_000);
  let real = make();
  const faults = new Faults();
  const log = new CallLog();
  const underWay = new Set<Promise<void>>();
  const serve = (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const work = handle(real, faults, log, request, response).finally(() => underWay.delete(work));
    underWay.add(work);
    return work;
  };
  let listener: Listener | null = await listen(options.port ?? 0, serve);
  const { port, url } = listener;
  const down = async (): Promise<void> => {
    await listener?.close();
    listener = null;
  };
  return {
    url,
    faults,
    log,
    get isUp() {
      return listener !== null;
    },
    down,
    async up() {
      listener ??= await listen(port, serve);
    },
    forget(next = version) {
      version = next;
      real = make();
    },
    async atRest() {
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
    stop() {
      faults.clear();
      return down();
    },
  };
}

async function handle(real: x402Facilitator, faults: Faults, log: CallLog, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const operation = ROUTES[`${request.method} ${request.url?.split("?")[0]}`];
  if (operation === undefined) return sendJson(response, 404, { error: "not_found" });
  const text = await readText(request);
  const body = parse(text);
  const work: Work = { operation, payment: body.paymentPayload as PaymentPayload, requirements: body.paymentRequirements as PaymentRequirements };
  const who = { operation, network: body.paymentRequirements?.network ?? null, payer: payerOf(body.paymentPayload?.payload) };
  const fault = faults.take(who);
  const call = log.begin({ ...who, fault: fault?.kind ?? null }, text, body.paymentPayload);

  const began = performance.now();
  const end = (how: CallEnd): void => {
    if (call.ms !== null) return;
    call.ms = Math.round((performance.now() - began) * 10) / 10;
    call.status = response.headersSent ? response.statusCode : null;
    call.ended ??= how;
  };
  response.once("finish", () => end("answered")).once("close", () => end("left"));
  if (fault === null) await respond(response, () => perform(real, work, call));
  else await misbehave(fault, { real, faults, work, call, response });
}

type Context = { real: x402Facilitator; faults: Faults; work: Work; call: Call; response: ServerResponse };

async function misbehave(fault: Fault, { real, faults, work, call, response }: Context): Promise<void> {
  const lose = async (how: Loss): Promise<void> => {
    if (how === "status") return sendJson(response, 500, { error: "internal_error" });
    if (how === "hang") await Promise.race([abort(faults.cleared), once(response, "close")]);
    cut(call, response);
  };
  switch (fault.kind) {
    case "hang":
    case "reset":
      return lose(fault.kind);
    case "slow":
      await delay(fault.ms, undefined, { signal: faults.cleared }).catch(() => {});
      return respond(response, () => perform(real, work, call));
    case "status":
      return send(response, fault.status ?? 500, fault.body ?? '{"error":"internal_error"}');
    case "garbage":
      return send(response, 200, fault.body ?? GARBAGE);
    case "lost":
      await perform(real, work, call).catch(() => {});
      return lose(fault.how ?? "reset");
    case "refuse":
      return sendJson(response, fault.status ?? 200, refusal(call, fault.reason ?? "insufficient_funds"));
    case "lie":
      return sendJson(response, 200, lie(call));
    case "pending":
      return respond(response, () => impatient.run(true, () => perform(real, work, call)));
    default:
      fault satisfies never;
  }
}

/** What the facilitator is for. Its exceptions come out as a 500, as in x402's own server. */
async function perform(real: x402Facilitator, { operation, payment, requirements }: Work, call: Call): Promise<unknown> {
  if (operation === "supported") return real.getSupported();
  try {
    call.result = operation === "verify" ? await real.verify(payment, requirements) : await real.settle(payment, requirements);
    return call.result;
  } catch (error) {
    call.result = { error: error instanceof Error ? error.message : String(error) };
    throw error;
  }
}

async function respond(response: ServerResponse, work: () => Promise<unknown>): Promise<void> {
  try {
    sendJson(response, 200, await work());
  } catch (error) {
    sendJson(response, 500, { error: error instanceof Error ? error.message : String(error) });
  }
}

function refusal({ operation, network, payer }: Call, reason: string): unknown {
  if (operation === "supported") return { kinds: [], extensions: [], signers: {} };
  return operation === "verify" ? { isValid: false, invalidReason: reason, payer } : { success: false, errorReason: reason, transaction: "", network, payer };
}

function lie({ operation, network, payer }: Call): unknown {
  const transaction = network?.startsWith("solana:") ? getBase58Decoder().decode(randomBytes(64)) : `0x${randomBytes(32).toString("hex")}`;
  return operation === "verify" ? { isValid: true, payer } : { success: true, transaction, network, payer };
}

function send(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": body.startsWith("{") ? "application/json" : "text/html" }).end(body);
}

function cut(call: Call, response: ServerResponse): void {
  if (response.closed) return;
  call.ended = "cut";
  response.socket?.resetAndDestroy();
}

function abort(signal: AbortSignal): Promise<unknown> {
  return signal.aborted ? Promise.resolve() : once(signal, "abort");
}

type Body = { paymentPayload?: { payload?: unknown }; paymentRequirements?: { network?: string } };

function parse(text: string): Body {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}

/** Whose money a payment would move, as far as it can be told. */
function payerOf(payload: unknown): string | null {
  const { authorization, transaction } = (payload ?? {}) as { authorization?: { from?: string }; transaction?: string };
  if (authorization?.from !== undefined) return authorization.from;
  if (transaction === undefined) return null;
  try {
    return getTokenPayerFromTransaction(decodeTransactionFromPayload({ transaction })) || null;
  } catch {
    return null;
  }
}
