// Type guards for the answers of the router. They are written by hand, so that zod is not part of the bundle. Unknown members pass, because the protocol may
// add some. On a job's way: every answer to the client.
import type { CommitResponse, Job, Receipt } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/json.ts";
import type { Model, ModelList } from "../protocol/models.ts";
import type { Health, JobPage, JobSummary, Paired, PairingCode, Quote, TrustList } from "../protocol/rest.ts";
import { isPrintable, PAIRING_CODE } from "../protocol/text.ts";
import type { PaymentOption } from "./errors.ts";
import { isModelName } from "./job-input.ts";
import type { PaymentChallenge } from "./payment.ts";

/** True for a UUID in its usual text form. */
export function isUuid(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value);
}

/** Shape of `GET /v1/health`. */
export function isHealth(value: unknown): value is Health {
  return isJsonObject(value) && value.status === "ok" && Number.isSafeInteger(value.workers_online) && hasTexts(value, "network", "timestamp");
}

/** Shape of `GET /v1/quote`. The endpoint must be one of the two, because job and payment are sent there. */
export function isQuote(value: unknown): value is Quote {
  return (
    isJsonObject(value) &&
    hasLines(value, "price", "network") &&
    ((value.policy_resolved === "FAST" && value.endpoint === "/v1/jobs/commit/fast") ||
      (value.policy_resolved === "CHEAP" && value.endpoint === "/v1/jobs/commit/cheap"))
  );
}

/** Shape of `GET /v1/models`. Names come from strangers and become part of commands and pages, so their form is checked. */
export function isModelList(value: unknown): value is ModelList {
  return isJsonObject(value) && value.object === "list" && Number.isSafeInteger(value.workers_online) && Array.isArray(value.data) && value.data.every(isModel);
}

function isModel(value: unknown): value is Model {
  return isJsonObject(value) && isModelName(value.id) && Number.isSafeInteger(value.created) && Number.isSafeInteger(value.workers);
}

/** Shape of an accepted commit. */
export function isCommitResponse(value: unknown): value is CommitResponse {
  return isJsonObject(value) && isUuid(value.job_id);
}

const STATUSES: readonly unknown[] = ["pending", "assigned", "running", "completed", "failed"] satisfies Job["status"][];

/** True for a status of a job. */
export function isStatus(value: unknown): value is Job["status"] {
  return STATUSES.includes(value);
}

/** Shape of `GET /v1/jobs/{id}`. */
export function isJob(value: unknown): value is Job {
  return (
    isJsonObject(value) &&
    isUuid(value.id) &&
    isStatus(value.status) &&
    (value.result === null || isJsonObject(value.result)) &&
    (value.receipt === null || isReceipt(value.receipt)) &&
    hasTexts(value, "created_at") &&
    isTextOrNull(value.completed_at)
  );
}

/** Shape of one job: an answer about another one is malformed. */
export function isJobWithId(jobId: string): (value: unknown) => value is Job {
  return (value): value is Job => isJob(value) && value.id.toLowerCase() === jobId.toLowerCase();
}

/** Shape of `GET /v1/jobs`. */
export function isJobPage(value: unknown): value is JobPage {
  return isJsonObject(value) && Array.isArray(value.jobs) && value.jobs.every(isJobSummary) && isTextOrNull(value.next);
}

function isJobSummary(value: unknown): value is JobSummary {
  return isJsonObject(value) && isUuid(value.id) && isStatus(value.status) && hasTexts(value, "job_type", "created_at") && isTextOrNull(value.completed_at);
}

/** Shape of a receipt as REST returns it. */
function isReceipt(value: unknown): value is Receipt {
  return isJsonObject(value) && hasTexts(value, "job_id", "provider_pubkey", "output_hash", "completed_at", "signature") && isTextOrNull(value.payment_ref);
}

/** Shape of a 402 body. Only the fields of the specification are required. */
export function isPaymentRequired(value: unknown): value is PaymentChallenge {
  return isJsonObject(value) && typeof value.error === "string" && Array.isArray(value.accepts) && value.accepts.every(isPaymentOption);
}

function isPaymentOption(value: unknown): value is PaymentOption {
  return isJsonObject(value) && hasLines(value, "scheme", "price", "network", "payTo");
}

/** Shape of `POST /v1/trust/create`. The code is shown to people and becomes part of commands and links, so its form is checked. */
export function isPairingCode(value: unknown): value is PairingCode {
  return isJsonObject(value) && hasTexts(value, "pairing_code", "expires_at") && PAIRING_CODE.test(String(value.pairing_code));
}

/** Shape of `POST /v1/trust/claim`. */
export function isPaired(value: unknown): value is Paired {
  return isJsonObject(value) && hasTexts(value, "user_id", "paired_at");
}

/** Shape of `GET /v1/trust/list`. */
export function isTrustList(value: unknown): value is TrustList {
  return (
    isJsonObject(value) &&
    Array.isArray(value.providers) &&
    value.providers.every((provider) => isJsonObject(provider) && hasTexts(provider, "provider_pubkey", "paired_at"))
  );
}

function hasTexts(value: Record<string, unknown>, ...names: string[]): boolean {
  return names.every((name) => typeof value[name] === "string");
}

/** For texts that become part of messages, which a person or an agent reads as ours: they are short, and the reader sees all of them. */
function hasLines(value: Record<string, unknown>, ...names: string[]): boolean {
  return names.every((name) => typeof value[name] === "string" && value[name].length <= 200 && isPrintable(value[name]));
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === "string";
}
