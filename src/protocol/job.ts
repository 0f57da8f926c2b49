// What a job is on the wire: its commit, its states, its result and its receipt. The first step of a job's way parses its body with `parseCommit`.
import * as z from "zod";
import { CHAT_MEMBERS, transcript } from "./chat.ts";
import { describeIssues } from "./issues.ts";
import { isJsonObject, isWellFormedJson } from "./json.ts";
import { LIMITS } from "./limits.ts";
import { ModelName } from "./models.ts";
import { inWords, utf8Length } from "./text.ts";

/** A receipt's five fields, in the order in which they are signed [RC1]. */
export const ReceiptFields = z.object({
  job_id: z.string(),
  provider_pubkey: z.string(),
  output_hash: z.string(),
  completed_at: z.string(),
  payment_ref: z.string().nullable(),
});
export type ReceiptFields = z.infer<typeof ReceiptFields>;

export const Receipt = ReceiptFields.extend({
  signature: z.string().meta({ description: "ed25519 over the canonical bytes of the other five fields, base64 of 64 bytes." }),
}).meta({ id: "Receipt", description: "A worker's signed statement of what it delivered." });
/** A receipt as REST returns it: the five signed fields and the signature in base64. The worker always signs `payment_ref` as null. */
export type Receipt = z.infer<typeof Receipt>;

export const JobType = z.enum(["LLM_INFER", "TASK"]);
/** Kind of a job [SPEC]. */
export type JobType = z.infer<typeof JobType>;

export const TaskType = z.enum(["summarize", "classify", "extract_json"]);
/** Kind of a TASK [SPEC]. */
export type TaskType = z.infer<typeof TaskType>;

export const PrivacyClass = z.enum(["PUBLIC", "PRIVATE"]);
/** Who may run a job: any capable worker (PUBLIC), or only the user's paired workers (PRIVATE) [SPEC]. */
export type PrivacyClass = z.infer<typeof PrivacyClass>;

export const ResolvedPolicy = z.enum(["FAST", "CHEAP"]);
/** The policy that a job was committed under. It is never `AUTO`. */
export type ResolvedPolicy = z.infer<typeof ResolvedPolicy>;

export const Policy = z.enum(["FAST", "CHEAP", "AUTO"]);
/** What a seeker asks for; `AUTO` resolves by job type [SPEC]. */
export type Policy = z.infer<typeof Policy>;

export const JobStatus = z.enum(["pending", "assigned", "running", "completed", "failed"]);
/** Public state of a job [JB1]. */
export type JobStatus = z.infer<typeof JobStatus>;

export const FailureCause = z.enum([
  "no_eligible_worker",
  "worker_unavailable",
  "no_trusted_worker",
  "worker_lost",
  "execution_timeout",
  "worker_error",
  "invalid_receipt",
  "output_too_large",
  "deadline_exceeded",
  "cancelled",
  "payment_failed",
  "content_refused",
  "context_length_exceeded",
]);
/** `result.error` of a failed job [JB5]. */
export type FailureCause = z.infer<typeof FailureCause>;

const wellFormed = z.string().refine((text) => text.isWellFormed(), "must be well-formed Unicode");
const Text = wellFormed.min(1, "must not be empty").meta({ description: `At most ${LIMITS.textBytes} bytes of UTF-8.` });

export const UserId = wellFormed
  .refine((id) => id.length > 0 && [...id].length <= LIMITS.userIdChars, `must have 1 to ${LIMITS.userIdChars} characters`)
  .refine((id) => !/\p{Cc}/u.test(id), "must not contain control characters")
  .meta({
    id: "UserId",
    description: "Owner of jobs and pairings. A capability: keep it secret, make it random.",
    minLength: 1,
    maxLength: LIMITS.userIdChars,
  });
/** Owner of jobs and pairings; a secret capability [TR1]. */
export type UserId = z.infer<typeof UserId>;
/**
 * The form of an id that the coordinator makes for an OpenAI request without `user`. Nobody owns such an id, so it gets no pairing code and no token [API9].
 */
export const MADE_USER_ID = /^openai-[0-9a-f]{64}$/;

/** An optional member. Null counts as absent, because many clients send null for a missing member [API2]. */
export const absent = <T extends z.ZodType>(schema: T) => schema.nullish();

/** A payload may repeat the type of its job. It must not name another type. */
const sameType = <T extends JobType>(type: T) => absent(z.literal(type, `must be ${type}, as job_type is`));

function wholeNumber(min: number, max: number): z.ZodInt {
  const rule = `must be a whole number from ${min} to ${max}`;
  return z.int(rule).min(min, rule).max(max, rule);
}

export const LlmPayload = z
  .looseObject({
    job_type: sameType("LLM_INFER"),
    prompt: absent(Text).meta({ description: `At most ${LIMITS.textBytes} bytes of UTF-8. Needed if there are no \`messages\`.` }),
    model: absent(ModelName).meta({ description: "The model that must answer, as a worker announced it; compared without case. Absent or `auto` is any." }),
    ...CHAT_MEMBERS,
    messages: CHAT_MEMBERS.messages.meta({
      description: `A chat of at most ${LIMITS.chatMessages} messages; its texts have at most ${LIMITS.textBytes} bytes of UTF-8 together. Without \`prompt\` the worker gets the transcript as \`prompt\` too.`,
    }),
    max_tokens: absent(wholeNumber(1, LIMITS.maxTokens)).meta({
      description:
        `The most tokens of the answer; default ${LIMITS.defaultMaxTokens}. A worker may generate fewer (at most ${LIMITS.workerMaxTokens} unless its owner changes that): ` +
        "an answer that was cut has `finish_reason` `length`.",
    }),
  })
  .refine(({ prompt, messages }) => typeof prompt === "string" || Array.isArray(messages), {
    path: ["prompt"],
    message: "must be a string, unless there are messages",
  })
  .meta({ id: "LlmPayload" });
/** Payload of an LLM_INFER job. Other members reach the worker unchanged [WS8]. */
export type LlmPayload = z.infer<typeof LlmPayload>;

export const TaskPayload = z.looseObject({ job_type: sameType("TASK"), task_type: TaskType, input: Text }).meta({ id: "TaskPayload" });
/** Payload of a TASK job. Other members reach the worker unchanged [WS8]. */
export type TaskPayload = z.infer<typeof TaskPayload>;

// Without `default`: generators of types make a request's member with a default a required one.
const Privacy = absent(PrivacyClass)
  .meta({ description: "Absent: PUBLIC." })
  .transform((value) => value ?? "PUBLIC");

export const CommitRequest = z
  .discriminatedUnion("job_type", [
    z.object({
      job_type: z.literal("LLM_INFER"),
      user_id: UserId,
      payload: LlmPayload,
      privacy_class: Privacy,
    }),
    z.object({
      job_type: z.literal("TASK"),
      user_id: UserId,
      payload: TaskPayload,
      privacy_class: Privacy,
    }),
  ])
  .meta({ id: "CommitRequest" });
/** Body of a commit [SPEC]. */
export type CommitRequest = z.infer<typeof CommitRequest>;

export const CommitResponse = z
  .object({ job_id: z.uuid(), job: z.lazy(() => Job).optional() })
  .meta({ id: "CommitResponse", description: "`job` is present only if `Prefer: wait=N` was applied." });
/** Body of a 201 [SPEC, API6]. */
export type CommitResponse = z.infer<typeof CommitResponse>;

export const Job = z
  .object({
    id: z.uuid(),
    status: JobStatus,
    result: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({
        description:
          "The worker's output. A failed job has `{ error, message? }`: `error` is the cause; `message` is the text that the last worker sent, at most " +
          `${LIMITS.messageChars} characters. It comes from a stranger: escape it, and never act on it.`,
      }),
    receipt: Receipt.nullable(),
    created_at: z.iso.datetime(),
    completed_at: z.iso.datetime().nullable(),
  })
  .meta({ id: "Job" });
/** A job as polling returns it [SPEC]. `result` and `receipt` are null until the job has ended. */
export type Job = z.infer<typeof Job>;

const REQUIRED = ["job_type", "payload", "user_id"] as const;
/** The last sentence of every refusal of a commit body [SPEC]. */
export const REQUIRED_FIELDS = `Required fields: ${REQUIRED.join(", ")}`;

/** Result of {@link parseCommit}; `error` is a sentence for the client. */
type CommitResult =
  | { ok: true; commit: CommitRequest; payload: Record<string, unknown> }
  | { ok: false; reason: "invalid"; error: string }
  | { ok: false; reason: "too_large" };

/**
 * Checks a commit body [API2].
 *
 * @param body the body, parsed as JSON
 * @returns `commit` has the validated fields; `payload` is the client's own object, which the worker gets unchanged
 */
export function parseCommit(body: unknown): CommitResult {
  if (!isJsonObject(body)) return invalid("Body must be a JSON object");
  if (REQUIRED.some((field) => body[field] === undefined || body[field] === null)) {
    return { ok: false, reason: "invalid", error: `Missing required fields: ${REQUIRED.join(", ")}` };
  }
  const parsed = CommitRequest.safeParse(body);
  if (!parsed.success) return invalid(describeIssues(parsed.error, body));
  const commit = parsed.data;
  const payload = body.payload;
  const overlooked = commit.privacy_class === "PRIVATE" ? undefined : misplacedPrivacy(body);
  if (overlooked !== undefined) return invalid(`${overlooked} must be absent: a job is PRIVATE if privacy_class says so, beside user_id`);
  if (!isJsonObject(payload) || !isWellFormedJson(payload)) return invalid("payload must hold well-formed Unicode only");
  if (textsOf(commit).some((text) => utf8Length(text) > LIMITS.textBytes)) return { ok: false, reason: "too_large" };
  const added = addedPrompt(commit);
  // A worker that knows only `prompt` would get an empty one, which no seeker may send either [WS8].
  if (added === "") return invalid("payload.messages must have some text");
  // The roles make a chat of many short messages several times as long.
  if (utf8Length(added ?? "") > LIMITS.textBytes) {
    return invalid(`payload.messages make a prompt of more than ${LIMITS.textBytes} bytes of UTF-8: send fewer messages, or a prompt of your own`);
  }
  return { ok: true, commit, payload };
}

/**
 * The member that asks for PRIVATE under a wrong name or in a wrong place; undefined if there is none. Other members that are not known do no harm, but such a
 * job would go to strangers. So a name counts in any case, with blanks, `_` and `-` or without.
 */
function misplacedPrivacy(body: Record<string, unknown>): string | undefined {
  const within = (place: string, members: Record<string, unknown>) =>
    Object.entries(members)
      .filter(([name, value]) => asksForPrivate(name, value))
      .map(([name]) => `${place}${/^\w+$/.test(name) ? name : inWords(name)}`);
  return [...within("", body), ...within("payload.", isJsonObject(body.payload) ? body.payload : {})][0];
}

function asksForPrivate(name: string, value: unknown): boolean {
  if (value !== true && !(typeof value === "string" && /^\s*private\s*$/i.test(value))) return false;
  const folded = name.toLowerCase().replaceAll(/[\s_-]/g, "");
  return value === true ? folded === "private" : folded === "privacy" || folded === "privacyclass";
}

/** The texts of a commit whose size is limited: the input of a TASK; the prompt and all messages of an LLM_INFER. */
function textsOf({ job_type, payload }: CommitRequest): string[] {
  if (job_type === "TASK") return [payload.input];
  return [payload.prompt ?? "", (payload.messages ?? []).map(({ content }) => content).join("")];
}

/** The prompt that a payload of messages alone gets: their transcript; null for every other payload [WS8, JB12]. */
export function addedPrompt({ job_type, payload }: CommitRequest): string | null {
  return job_type === "TASK" || typeof payload.prompt === "string" ? null : transcript(payload.messages ?? []);
}

function invalid(sentence: string): CommitResult {
  return { ok: false, reason: "invalid", error: `${sentence}. ${REQUIRED_FIELDS}` };
}
