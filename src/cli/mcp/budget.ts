// The spending limit of one run of `compute-router mcp`. A payment counts from the moment before it is signed, and stops counting when nothing was charged.
import { mayBeAccepted } from "../../sdk/commit.ts";
import { ComputeRouterError, JobFailedError, type PaymentHook, ProtocolError } from "../../sdk/index.ts";
import { highestAmount, inDollars } from "../../sdk/payment.ts";
import { isRefusal } from "../paying.ts";

/** A payment that the limit does not allow. Nothing was signed or paid. */
export class SpendLimitError extends Error {
  override readonly name = "SpendLimitError";
}

/** What all tool calls of this run may spend together. Amounts are in atomic units of USDC. */
export class Budget {
  readonly limit: bigint;
  #counted = 0n;

  constructor(limit: bigint) {
    this.limit = limit;
  }

  /** What was paid, and what payments may cost whose outcome is not known. */
  get counted(): bigint {
    return this.#counted;
  }

  /** Counts a payment before it is made. Throws SpendLimitError if it no longer fits. */
  take(amount: bigint): void {
    if (this.#counted + amount > this.limit)
      throw new SpendLimitError(
        `the spending limit is reached: this call would cost ${dollars(amount)}, and ${dollars(this.#counted)} of the ${dollars(this.limit)} that this server may spend are used. Nothing was paid for this call. The user can start the server again, with a higher --max-spend`,
      );
    this.#counted += amount;
  }

  /** Stops counting a payment of which nothing was charged. */
  giveBack(amount: bigint): void {
    this.#counted -= amount;
  }
}

/** The payment of one tool call. */
export class Purchase {
  readonly #budget: Budget;
  #amount = 0n;
  #isAccepted = false;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /** What the call has cost, as far as that is known. */
  get amount(): bigint {
    return this.#amount;
  }

  /** The hook of the user's payer, within the budget. */
  within(pay: PaymentHook): PaymentHook {
    return async (required, attempt) => {
      // A second request means that the first payment was refused and not charged.
      this.#isFree();
      const amount = highestAmount(required, attempt.header);
      if (amount === null) throw new ProtocolError("the coordinator asks for an amount that is malformed", { status: 402 });
      this.#budget.take(amount);
      this.#amount = amount;
      try {
        const headers = await pay(required, attempt);
        if (Object.keys(headers).length === 0) this.#isFree();
        return headers;
      } catch (error) {
        // Our own hooks throw these before they sign. Any other hook may have moved the money itself.
        if (error instanceof ComputeRouterError) this.#isFree();
        throw error;
      }
    };
  }

  /** The coordinator has the job, and with it the payment. */
  accepted(): void {
    this.#isAccepted = true;
  }

  /** The job is complete. If it was paid from the payer's balance with the coordinator, no money has moved. */
  completed({ fromCredit }: { fromCredit: boolean }): void {
    if (fromCredit) this.#isFree();
  }

  /** The call failed. What is not certainly free counts on, because the payment may have been taken. */
  failed(error: unknown): void {
    const isUncharged = error instanceof JobFailedError ? error.charged === false && !mayBeAccepted(error) : !this.#isAccepted && isRefusal(error);
    if (isUncharged) this.#isFree();
  }

  #isFree(): void {
    this.#budget.giveBack(this.#amount);
    this.#amount = 0n;
  }
}

/** An amount in US dollars. */
export function dollars(amount: bigint): string {
  return inDollars(String(amount));
}
