/** What a facilitator is asked. */
export type Operation = "verify" | "settle" | "supported";

/** How an answer that was ready fails to arrive. */
export type Loss = "reset" | "status" | "hang";

/** What goes wrong. Unless it says otherwise, nothing is verified and no money moves. */
export type Fault =
  /** No answer until the faults are cleared or the caller gives up. */
  | { kind: "hang" }
  /** The true answer, late. */
  | { kind: "slow"; ms: number }
  /** An HTTP error, 500 by default. */
  | { kind: "status"; status?: number; body?: string }
  /** 200 with a body that is no answer; HTML by default. */
  | { kind: "garbage"; body?: string }
  /** The connection is cut. */
  | { kind: "reset" }
  /** The work is done, the money moves, and then the answer is lost: connection cut (default), a 500, or silence. */
  | { kind: "lost"; how?: Loss }
  /** `isValid: false` or `success: false`, by default with the reason `insufficient_funds`, whatever the payer has. */
  | { kind: "refuse"; reason?: string; status?: number }
  /** `isValid: true` or `success: true`, without a look. */
  | { kind: "lie" }
  /** settle only: the transaction is sent, its confirmation is not awaited: `settlement_pending`. The next settle of the same payment finds it. */
  | { kind: "pending" };

/** When a fault applies. */
export type FaultRule = {
  operation: Operation;
  fault: Fault;
  /** How many calls; null or absent: until cleared. */
  times?: number | null;
  /** Only calls for this network. */
  network?: string;
  /** Only calls with a payment of this payer, where it can be read. */
  payer?: string;
};

/** The faults that wait for their calls; the oldest that fits applies. */
export class Faults {
  #rules: { rule: FaultRule; left: number }[] = [];
  #cleared = new AbortController();

  /** Aborts when the faults are cleared. */
  get cleared(): AbortSignal {
    return this.#cleared.signal;
  }

  get rules(): readonly FaultRule[] {
    return this.#rules.map(({ rule, left }) => ({ ...rule, times: left === Infinity ? null : left }));
  }

  add(rule: FaultRule): void {
    this.#rules.push({ rule, left: rule.times ?? Infinity });
  }

  /** Removes all faults and lets go of the calls that hang. */
  clear(): void {
    this.#rules = [];
    this.#cleared.abort();
    this.#cleared = new AbortController();
  }

  /** The fault of one call, which is counted. */
  take(call: { operation: Operation; network: string | null; payer: string | null }): Fault | null {
    const found = this.#rules.find(
      ({ rule }) =>
        rule.operation === call.operation &&
        (rule.network === undefined || rule.network === call.network) &&
        (rule.payer === undefined || rule.payer.toLowerCase() === call.payer?.toLowerCase()),
    );
    if (found === undefined) return null;
    found.left--;
    if (found.left <= 0) this.#rules = this.#rules.filter((entry) => entry !== found);
    return found.rule.fault;
  }
}
