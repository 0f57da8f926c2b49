// What an agent reads of an error: one or two plain sentences, with what became of the money.
import {
  ComputeRouterError,
  InvalidOptionError,
  JobFailedError,
  JobTimeoutError,
  NoEligibleWorkerError,
  NoSuchModelError,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentRequiredError,
  RateLimitedError,
  ReceiptError,
  RouterConnectionError,
  UnavailableError,
} from "../../sdk/index.ts";
import { inDollars } from "../../sdk/payment.ts";
import { printable } from "../../worker/node/status-line.ts";

/** Characters that have no shape and that language models read all the same, so text could hide in them. Three of them are parts of visible characters. */
const HIDDEN = /(?!\u200C|\u200D|\uFE0F)\p{Default_Ignorable_Code_Point}/gu;

/** Untrusted text with its control characters escaped and its hidden characters removed. `structuredContent` has it as it came. */
export function visible(text: string): string {
  return printable(text.replaceAll(HIDDEN, ""));
}

/** An error as sentences for an agent. */
export function plainWords(error: unknown): string {
  if (error instanceof JobFailedError) return `${jobWords(error)} ${moneyWords(error)}`;
  if (error instanceof JobTimeoutError) return `${error.message}. It was cancelled or continues; what it has cost counts for the spending limit.`;
  if (error instanceof PaymentRequiredError)
    return error.idempotencyKey === null
      ? `This coordinator asks for ${error.accepts[0]?.price ?? "a payment"}, and this server has no wallet. The user can start it with --payer.`
      : `The coordinator refused the payment: ${error.reason ?? error.message}. Nothing was charged.`;
  if (error instanceof RouterConnectionError) return `The coordinator cannot be reached: ${error.message}.`;
  if (error instanceof RateLimitedError) return `There were too many requests. Wait ${Math.ceil((error.retryAfter ?? 60_000) / 1_000)} s.`;
  if (error instanceof UnavailableError) return `The coordinator is not available (${error.reason ?? error.message}). Try again later.`;
  if (error instanceof NoSuchModelError) return `No worker offers this model. Online: ${error.models.join(", ") || "none"}.`;
  if (error instanceof NotFoundError) return `The coordinator does not know this: ${error.message}.`;
  if (error instanceof ReceiptError) return `${error.message}. The result is not shown, because this server accepts valid receipts only.`;
  if (error instanceof InvalidOptionError || error instanceof ComputeRouterError) return `${error.message}.`;
  return error instanceof Error ? `${error.message}.` : "Something unexpected happened.";
}

function jobWords(error: JobFailedError): string {
  if (error instanceof NoEligibleWorkerError) return "No worker that can do this job was free within 30 s. Try again later.";
  if (error instanceof NoTrustedWorkerError) return "None of the user's paired workers is online, and this server sends jobs to no others.";
  const said = error.workerMessage === null ? "" : ` The worker, a stranger, wrote: ${JSON.stringify(error.workerMessage)}.`;
  return `The job failed: ${error.cause}.${said}`;
}

function moneyWords({ charged, credit }: JobFailedError): string {
  if (credit !== null) return `Its ${inDollars(credit.amount)} are the user's credit for the next jobs.`;
  if (charged === null) return "It is not known yet whether it was charged.";
  return charged ? "It was charged." : "Nothing was charged.";
}
