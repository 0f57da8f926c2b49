/**
 * The contract of The Compute Router, for everyone who implements a client, a worker or a coordinator. It has the messages as Zod schemas and types, the
 * texts that a worker signs, and the documented limits. docs/protocol.md explains the rules in words.
 *
 * A schema and its type share one name: `Job.parse(value)` returns a `Job` or throws a `ZodError`, and `Job.safeParse(value)` returns a result.
 *
 * @example
 * const job = Job.parse(await (await fetch(`${router.baseUrl}/v1/jobs/${jobId}`)).json());
 * console.log(job.status);
 * @module
 */

// Jobs and receipts
export {
  CommitRequest,
  CommitResponse,
  FailureCause,
  Job,
  JobStatus,
  JobType,
  LlmPayload,
  Policy,
  PrivacyClass,
  Receipt,
  ReceiptFields,
  ResolvedPolicy,
  TaskPayload,
  TaskType,
  UserId,
} from "./job.ts";

// The other REST bodies
export {
  ErrorBody,
  Health,
  JobPage,
  JobsQuery,
  JobSummary,
  NoSuchModel,
  NoTrustedWorker,
  Paired,
  PairingClaim,
  PairingCode,
  PairingCreate,
  PaymentRequired,
  PaymentRequirement,
  Quote,
  QuoteQuery,
  REFUSALS,
  TrustList,
} from "./rest.ts";
export type { ClaimRefusal, Refusal } from "./rest.ts";
export { Model, ModelList } from "./models.ts";
export { ChatCompletionRequest, CompletionRequest, OpenAiError } from "./chat.ts";

// The messages on a worker's socket
export {
  Challenge,
  CLOSE,
  COORDINATOR_FRAMES,
  Drain,
  Drained,
  ErrorFrame,
  Heartbeat,
  HEARTBEAT,
  HEARTBEAT_ACK,
  HeartbeatAck,
  JobAck,
  JobAssign,
  JobCancel,
  JobComplete,
  JobCompleteAck,
  JobFailed,
  JobProgress,
  JobReject,
  Register,
  RegisterAck,
  Tier,
  TierChange,
  WORKER_FRAMES,
  WorkerFailure,
} from "./worker-messages.ts";
export type { CompletionRefusal, CoordinatorFrame, RegisterRefusal, WorkerFrame } from "./worker-messages.ts";

// The texts that a worker signs
export { pairText, registerText } from "./worker-messages.ts";

// Documented limits and times
export { LIMITS, RATES } from "./limits.ts";
export { CLIENT, MAX_WAIT_SECONDS, RETENTION, RETRY_AFTER, TIMING } from "./times.ts";
