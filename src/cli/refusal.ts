// Which failures prove that the coordinator has kept nothing of a commit, neither a job nor a payment, and what to say of the others.
import { mayBeAccepted } from "../sdk/commit.ts";
import {
  BadRequestError,
  type ComputeRouterError,
  ConflictError,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentLimitError,
  PaymentRequiredError,
  RateLimitedError,
} from "../sdk/index.ts";
import { shellWord } from "../worker/node/command-name.ts";

/** True if the coordinator refused the commit, which it never charges [PY5]. If the answer to an earlier try was lost, that try may have been accepted. */
export function isRefusal(error: unknown): boolean {
  const kinds = [BadRequestError, ConflictError, NotFoundError, NoTrustedWorkerError, PaymentRequiredError, RateLimitedError];
  return !mayBeAccepted(error) && kinds.some((kind) => error instanceof kind);
}

/** What to do after a commit that may have been accepted, as the end of a message; empty after any other. */
export function lostText(error: ComputeRouterError, isPaying: boolean): string {
  const { idempotencyKey } = error;
  // A payment over a limit was not signed.
  const isUnpaid = isRefusal(error) || (error instanceof PaymentLimitError && !mayBeAccepted(error));
  return idempotencyKey === null || isUnpaid ? "" : `; ${sameKeyText(idempotencyKey, isPaying)}`;
}

/** How to get the job of a commit whose answer is missing: its key makes the next commit the same job [API5]. */
export function sameKeyText(key: string, isPaying: boolean): string {
  const [what, how] = isPaying ? ["the job and the payment", "it without paying twice"] : ["the job", "that job and no second one"];
  return `the coordinator may have ${what}; to get ${how}, run the same command with --idempotency-key ${shellWord(key)}`;
}
