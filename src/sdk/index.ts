/**
 * The reference client of The Compute Router. It runs wherever `fetch` and `crypto.getRandomValues` exist: Node 20 and later, browsers, Cloudflare Workers,
 * Deno and Bun.
 * @module
 */

// The client
export { ComputeRouter } from "./client.ts";
export type { ClientOptions, FallbackProvider, Instance } from "./options.ts";

// Jobs in, results out
export type { AnswerOptions, ChatMessage, JobInput, LlmJob, ResponseFormat, TaskJob } from "./job-input.ts";
export type {
  CancelOptions,
  CommitOptions,
  GetOptions,
  JobsOptions,
  LlmOptions,
  MapOptions,
  MapResult,
  PairingWaitOptions,
  Privacy,
  QuoteOptions,
  RequestOptions,
  RunOptions,
  StreamOptions,
  WaitOptions,
} from "./run-options.ts";
export type { Cancellation, JobHandle, JobsPage } from "./accepted-jobs.ts";
export type { JobList, LocalJob, Usage } from "./local-jobs.ts";
export type { JobEvent, JobStream } from "./job-stream.ts";
export type { Classification, Extraction, FallbackResult, JobOutput, RouterResult, RunResult, Summary } from "./result.ts";

// Receipts
export { verifyReceipt } from "../receipt/receipt.ts";
export type { ReceiptCheck } from "../receipt/receipt.ts";
export type { Verification } from "./result.ts";

// Pairing, payment and fallback
export { fingerprintOf } from "../receipt/ed25519.ts";
export type { PairedWorker, PairingClaimInput, PairingOffer, Trust } from "./trust.ts";
export type { Credit } from "../protocol/rest.ts";
export type { PaymentAttempt, PaymentChallenge, PaymentHook } from "./payment.ts";
export { openaiCompatible, type OpenAiCompatibleOptions } from "./fallback.ts";

// Errors
export {
  BadRequestError,
  ComputeRouterError,
  ConflictError,
  FallbackError,
  InvalidOptionError,
  JobFailedError,
  JobTimeoutError,
  NoEligibleWorkerError,
  NoSuchModelError,
  NoTrustedWorkerError,
  NotFoundError,
  PairingExpiredError,
  PaymentLimitError,
  PaymentRequiredError,
  ProtocolError,
  RateLimitedError,
  ReceiptError,
  RouterConnectionError,
  UnavailableError,
  UnexpectedOutputError,
} from "./errors.ts";
export type { ErrorDetails, PaymentOption } from "./errors.ts";

// Types of the wire
export type { Health } from "../protocol/rest.ts";
export type { Job, JobStatus, JobType, Policy, ResolvedPolicy, TaskType } from "../protocol/job.ts";
export type { JobSummary } from "../protocol/rest.ts";
export type { Model, ModelList } from "../protocol/models.ts";
export type { Quote } from "../protocol/rest.ts";
export type { Receipt } from "../protocol/job.ts";
export type { Paired, PairingCode, TrustList } from "../protocol/rest.ts";
