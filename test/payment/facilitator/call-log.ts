// The log of the calls that the facilitator of the payment lab got.
import { createHash } from "node:crypto";
import type { Fault, Operation } from "./faults.ts";

const KEPT_CALLS = 2_000;

/** How a call ended: with an answer, without one by a fault, or the caller left. */
export type CallEnd = "answered" | "cut" | "left";

/** One call of the facilitator. */
export type Call = {
  readonly id: number;
  readonly operation: Operation;
  /** ISO 8601, when it arrived. */
  readonly at: string;
  readonly network: string | null;
  readonly payer: string | null;
  /** SHA-256 of the body, in hex. */
  readonly bodyHash: string;
  /** SHA-256 of its `paymentPayload`, in hex. */
  readonly paymentHash: string | null;
  readonly fault: Fault["kind"] | null;
  /** Null while it lasts. */
  ended: CallEnd | null;
  /** The HTTP status that was sent. */
  status: number | null;
  /** What the facilitator really found or did, also when nobody was told. */
  result: unknown;
  /** How long it took. */
  ms: number | null;
};

/** The facilitator's calls in the order of their arrival; the last 2,000. */
export class CallLog {
  #calls: Call[] = [];
  #counts: Record<Operation, number> = { verify: 0, settle: 0, supported: 0 };
  #next = 1;

  get calls(): readonly Call[] {
    return this.#calls;
  }

  /** Since the start or the last `clear`. */
  get counts(): Readonly<Record<Operation, number>> {
    return this.#counts;
  }

  begin(call: Pick<Call, "operation" | "network" | "payer" | "fault">, body: string, payment: unknown): Call {
    const entry: Call = {
      ...call,
      id: this.#next++,
      at: new Date().toISOString(),
      bodyHash: sha256(body),
      paymentHash: payment === undefined ? null : sha256(JSON.stringify(payment)),
      ended: null,
      status: null,
      result: null,
      ms: null,
    };
    this.#calls.push(entry);
    if (this.#calls.length > KEPT_CALLS) this.#calls.shift();
    this.#counts = { ...this.#counts, [call.operation]: this.#counts[call.operation] + 1 };
    return entry;
  }

  clear(): void {
    this.#calls = [];
    this.#counts = { verify: 0, settle: 0, supported: 0 };
  }
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
