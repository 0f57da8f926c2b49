// The example values of the OpenAPI document. Each has the type of what it shows, so the compiler checks it.
import type { ChatCompletionRequest, CompletionRequest, OpenAiError } from "../../protocol/chat.ts";
import type { CommitRequest, CommitResponse, Job } from "../../protocol/job.ts";
import type { ModelList } from "../../protocol/models.ts";
import { endpointOf, quotePrice } from "../../protocol/pricing.ts";
import type {
  Health,
  JobPage,
  NoSuchModel,
  NoTrustedWorker,
  Paired,
  PairingClaim,
  PairingCode,
  PairingCreate,
  Quote,
  TrustList,
  X402Resources,
} from "../../protocol/rest.ts";
import { keyPair } from "../../receipt/ed25519.ts";
import { signReceipt } from "../../receipt/receipt.ts";
import { type PaymentSettings, readSettings } from "../config.ts";
import { evmToken, type Offer, paymentRequired } from "../payment/terms.ts";
import { endedEvents, type StreamEvent } from "../stream/event-log.ts";
import { eventPieces } from "../stream/reader.ts";

const ID = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const CREATED = "2026-10-01T12:00:00.000Z";
const COMPLETED = "2026-10-01T12:00:01.250Z";
const USER = "user-5f0c2b7e9a4d41e8b3c6";
const { network, payment } = readSettings({ INSTANCE: "evm" });

// The example receipt has a real signature, so that a reader can test a verifier with it. The secret key is 32 times 0x07: it is public and protects nothing.
const worker = keyPair(new Uint8Array(32).fill(7));
const output = { confidence: 0.92, sentiment: "positive" };

const task: CommitRequest = {
  job_type: "TASK",
  user_id: USER,
  payload: { task_type: "classify", input: "The delivery was quick and the staff were kind." },
  privacy_class: "PUBLIC",
};
const llm: CommitRequest = {
  job_type: "LLM_INFER",
  user_id: USER,
  payload: { prompt: "Explain in one sentence what a hash is.", max_tokens: 64 },
  privacy_class: "PUBLIC",
};
/** 422 for a user without a paired worker. */
const privateLlm: CommitRequest = { ...llm, privacy_class: "PRIVATE" };
const pending: Job = { id: ID, status: "pending", result: null, receipt: null, created_at: CREATED, completed_at: null };
const completed: Job = { ...pending, status: "completed", result: output, receipt: signReceipt(worker, ID, output, COMPLETED), completed_at: COMPLETED };
const text = {
  finish_reason: "stop",
  model: "llama3.2:latest",
  output: "A hash is a fingerprint of data.",
  usage: { completion_tokens: 9, prompt_tokens: 10 },
};
const answered: Job = { ...completed, result: text, receipt: signReceipt(worker, ID, text, COMPLETED) };
const failed: Job = { ...pending, status: "failed", result: { error: "no_eligible_worker" } };
const cancelled: Job = { ...pending, status: "failed", result: { error: "cancelled" } };
const accepted: CommitResponse = { job_id: ID };
const waited: CommitResponse = { job_id: ID, job: completed };
const refused: NoTrustedWorker = { error: "no_trusted_worker", job_id: ID };
const noSuchModel: NoSuchModel = { error: "no_such_model", models: ["llama3.2:latest", "Qwen3-8B"] };
const chat: ChatCompletionRequest = {
  // Every instance with an LLM answers it: /docs sends the examples as they are.
  model: "auto",
  messages: [{ role: "user", content: "Explain in one sentence what a hash is." }],
  stream: true,
};
const completion: CompletionRequest = { model: "auto", prompt: "Explain in one sentence what a hash is.", max_tokens: 64 };
const openAiError = (type: string, code: string, message = code, param: string | null = null): OpenAiError => ({ error: { message, type, param, code } });
const health: Health = { status: "ok", workers_online: 3, network, timestamp: CREATED };
const quote: Quote = { price: quotePrice("FAST", "LLM_INFER"), endpoint: endpointOf("FAST"), policy_resolved: "FAST", network, expires_at: null };
const models: ModelList = {
  object: "list",
  data: [
    { id: "llama3.2:latest", object: "model", created: Date.parse(CREATED) / 1_000, owned_by: "workers", workers: 2 },
    { id: "Qwen3-8B", object: "model", created: Date.parse(CREATED) / 1_000, owned_by: "workers", workers: 1 },
  ],
  workers_online: 3,
};
const x402: X402Resources = {
  x402Version: 2,
  version: 1,
  kind: "resource-server",
  network,
  resources: ["/v1/jobs/commit/fast", "/v1/jobs/commit/cheap", "/v1/chat/completions", "/v1/completions"].map((path) => `https://router.example${path}`),
  instructions: "POST. Send the request without a payment: the 402 says what to pay in PAYMENT-REQUIRED. …",
};
const create: PairingCreate = { user_id: USER };
const code: PairingCode = { pairing_code: "A1B2C3", expires_at: "2026-10-01T13:00:00.000Z" };
const claim: PairingClaim = { pairing_code: code.pairing_code, provider_pubkey: worker.publicKey };
const paired: Paired = { user_id: USER, paired_at: CREATED };
const list: TrustList = { providers: [{ provider_pubkey: worker.publicKey, paired_at: CREATED }] };
const page: JobPage = {
  jobs: [{ id: ID, job_type: "TASK", status: "completed", created_at: CREATED, completed_at: completed.completed_at }],
  next: `${CREATED},${ID}`,
};
const offer = (policy: Offer["policy"], { asset, payTo }: PaymentSettings): Offer => ({
  instance: "evm",
  network,
  policy,
  payTo,
  token: evmToken(asset ?? { address: "", name: "", version: "" }),
  resource: `https://router.example${endpointOf(policy)}`,
});
const unpaid = (policy: Offer["policy"], error = "payment_required") => paymentRequired(offer(policy, payment), error);

const events = [
  { id: 1_790_856_000_250_001, name: "status", data: JSON.stringify({ status: "running", attempt: 1 }) },
  { id: 1_790_856_000_250_002, name: "delta", data: JSON.stringify({ attempt: 1, seq: 0, delta: "A hash is" }) },
  { id: 1_790_856_000_250_003, name: "delta", data: JSON.stringify({ attempt: 1, seq: 1, delta: " a fingerprint of data." }) },
  ...endedEvents({ status: "completed", attempt: 1, json: JSON.stringify(completed) }, null),
] satisfies StreamEvent[];

/** The example values, by name. */
export const EXAMPLES = {
  id: ID,
  user: USER,
  task,
  llm,
  privateLlm,
  pending,
  completed,
  answered,
  failed,
  accepted,
  waited,
  refused,
  noSuchModel,
  cancelled,
  chat,
  completion,
  openAiError,
  health,
  quote,
  models,
  x402,
  create,
  code,
  claim,
  paired,
  list,
  page,
  events: events.flatMap(eventPieces).join(""),
  unpaid,
};
