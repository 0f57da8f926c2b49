// Paying: the hook of `--payer`, a module of the user, which has the wallet (this program has none and reads no keys), what a commit that failed may have
// cost, and the spending limit of `compute-router mcp`.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { keptNothing, mayBeAccepted } from "../sdk/commit.ts";
import {
  BadRequestError,
  type ClientOptions,
  ComputeRouterError,
  ConflictError,
  JobFailedError,
  NotFoundError,
  NoTrustedWorkerError,
  type PaymentHook,
  PaymentLimitError,
  PaymentRequiredError,
  ProtocolError,
  RateLimitedError,
} from "../sdk/index.ts";
import { ALREADY_USED } from "../protocol/pricing.ts";
import { highestAmount, inDollars, isDeclined, readMaxPrice } from "../sdk/payment.ts";
import { shellWord } from "../worker/node/program.ts";
import { CliError, EXIT } from "./command.ts";

/** The options of every command that may pay. */
export const PAYER_ARGS = {
  payer: { type: "string", valueHint: "file.mjs", description: "Pay with the payment hook that is the default export of this module (docs/sdk.md, Paying)" },
  "max-price": { type: "string", valueHint: "dollars", description: "Maximum price of the job in US dollars, such as 0.01; with --payer the default is 0.01" },
} as const;

/** The default limit for a job with a payer, in US dollars: the price of the most expensive endpoint. */
const DEFAULT_MAX_PRICE = "0.01";

/** The SDK's options for paying. */
export async function payerOptions(args: { payer?: string | undefined; "max-price"?: string | undefined }): Promise<ClientOptions> {
  const maxPrice = maxPriceOf(args);
  return { ...(maxPrice !== undefined && { maxPrice }), ...(args.payer !== undefined && { payment: await loadHook(args.payer) }) };
}

/** The limit of the command for the price of a job, in US dollars; undefined if it has none. A payer may have a lower one of its own. */
export function maxPriceOf(args: { payer?: string | undefined; "max-price"?: string | undefined }): number | undefined {
  const text = args["max-price"] ?? (args.payer === undefined ? undefined : DEFAULT_MAX_PRICE);
  return text === undefined ? undefined : maxPriceIn(text);
}

function maxPriceIn(text: string): number {
  try {
    return readMaxPrice(text);
  } catch (error) {
    throw new CliError(EXIT.usage, "--max-price must be US dollars, such as 0.01", { cause: error });
  }
}

async function loadHook(file: string): Promise<PaymentHook> {
  const path = resolve(file);
  // Otherwise the error would name a file of this program, which imports the module.
  if (!existsSync(path)) throw new CliError(EXIT.usage, `--payer: there is no file ${path}`);
  let module: { default?: ClientOptions["payment"] };
  try {
    module = await import(pathToFileURL(path).href);
  } catch (error) {
    throw new CliError(EXIT.usage, `--payer: cannot load ${file}: ${error instanceof Error ? error.message : "unknown error"}`, { cause: error });
  }
  const pay = module.default;
  if (typeof pay !== "function") throw new CliError(EXIT.usage, `--payer: the default export of ${file} must be a payment hook, such as payWithEvm(account)`);
  return async (required, attempt) => {
    try {
      return await pay(required, attempt);
    } catch (error) {
      // After Ctrl-C it is the reason of the signal.
      if (attempt.signal.aborted) throw error;
      const known = knownError(error);
      if (known !== null) throw known;
      throw new CliError(EXIT.error, `--payer: the payment hook of ${file} failed: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  };
}

/**
 * An error of the SDK that the module of the user has imported; null for any other. The built program has its own copy of the SDK, so `instanceof` does not
 * know the errors of the package.
 */
function knownError(error: unknown): ComputeRouterError | null {
  if (error instanceof ComputeRouterError) return error;
  if (!(error instanceof Error && "code" in error && "idempotencyKey" in error)) return null;
  const { code, message, cause } = error;
  const reason = "reason" in error && typeof error.reason === "string" ? error.reason : undefined;
  if (code === "payment_limit" && "price" in error && "maxPrice" in error)
    return new PaymentLimitError(String(error.price), Number(error.maxPrice), { status: 402, reason, cause });
  return new ProtocolError(message, { status: 402, reason, cause });
}

/** True if the coordinator refused the commit, which it never charges [PY5]. If the answer to an earlier try was lost, that try may have been accepted. */
function isRefusal(error: unknown): boolean {
  const kinds = [BadRequestError, ConflictError, NotFoundError, NoTrustedWorkerError, PaymentRequiredError, RateLimitedError];
  return !mayBeAccepted(error) && (keptNothing(error) || kinds.some((kind) => error instanceof kind));
}

/** What to do after a commit that may have been accepted, as the end of a message; empty after any other. */
export function lostText(error: ComputeRouterError, isPaying: boolean): string {
  const { idempotencyKey } = error;
  // With the same key it would be another payment: the coordinator has kept no job for this one.
  if (error instanceof PaymentRequiredError && ALREADY_USED.some((reason) => error.message.includes(String(reason))))
    return "; the money may have moved: look at the chain before you pay again";
  // A payment over a limit was not signed.
  const isUnpaid = isRefusal(error) || (error instanceof PaymentLimitError && !mayBeAccepted(error));
  return idempotencyKey === null || isUnpaid ? "" : `; ${sameKeyText(idempotencyKey, isPaying)}`;
}

/** How to get the job of a commit whose answer is missing: its key makes the next commit the same job [API5]. */
export function sameKeyText(key: string, isPaying: boolean): string {
  const [what, how] = isPaying ? ["the job and the payment", "it without paying twice"] : ["the job", "that job and not a second one"];
  return `the coordinator may have ${what}; to get ${how}, run the same command with --idempotency-key ${shellWord(key)}`;
}

/** A payment that the limit does not allow. Nothing was signed or paid. */
export class SpendLimitError extends Error {
  override readonly name = "SpendLimitError";
}

/**
 * What all tool calls of one run of `compute-router mcp` may spend together. Amounts are in atomic units of USDC. A payment counts from the moment before it is
 * signed, and stops counting when nothing was charged.
 */
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
        if (isDeclined(headers)) this.#isFree();
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
