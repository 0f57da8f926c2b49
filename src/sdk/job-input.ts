// Jobs as users write them: their types, their checks, and the body of the commit, which is the first step of a job's way.
import type { JobType, TaskType } from "../protocol/job.ts";
import { LIMITS } from "../protocol/limits.ts";
import { isJsonObject, isWellFormedJson, utf8Length } from "../protocol/text.ts";
import { type AnswerMembers, checkAnswerMembers } from "./answer-options.ts";
import { checkChoice, wrong } from "./check.ts";
import { InvalidOptionError } from "./errors.ts";

/**
 * One message of a chat.
 *
 * @example
 * const messages: ChatMessage[] = [
 *   { role: "system", content: "Answer in one sentence." },
 *   { role: "user", content: "What is a hash?" },
 * ];
 */
export type ChatMessage = { role: "system" | "user" | "assistant"; content: string };

/** A prompt of at most 256 KiB of UTF-8, or a chat whose texts have as much together, or both: a worker that knows chats then answers the chat. */
type Prompt = { prompt: string; messages?: readonly ChatMessage[] } | { prompt?: string; messages: readonly ChatMessage[] };

/** A text generation. Its `output` is the text. */
export type LlmJob = { job_type: "LLM_INFER" } & Prompt & AnswerMembers;

/** One of the built-in text tasks. Its `output` is the object of the task. */
export type TaskJob = {
  job_type: "TASK";
  task_type: TaskType;
  /** At most 256 KiB of UTF-8. */
  input: string;
};

/**
 * A job to run. Other members reach the worker unchanged.
 *
 * @example
 * const jobs: JobInput[] = [
 *   { job_type: "LLM_INFER", prompt: "What is a hash?", max_tokens: 100 },
 *   { job_type: "TASK", task_type: "classify", input: "I love it" },
 * ];
 */
export type JobInput = LlmJob | TaskJob;

const JOB_TYPES: readonly JobType[] = ["LLM_INFER", "TASK"];
const TASK_TYPES: readonly TaskType[] = ["summarize", "classify", "extract_json"];

/** Checks a job by the rules of the router, before the SDK sends anything [API2]. Throws InvalidOptionError with the field's name, which begins with `name`. */
export function checkJob(job: JobInput, name = "job"): JobInput {
  if (!isJsonObject(job)) throw wrong(name, "must be an object", job);
  checkJobType(`${name}.job_type`, job.job_type);
  if (!isWellFormedJson(job)) throw new InvalidOptionError(name, "must hold well-formed Unicode only");
  if (job.job_type === "TASK") {
    if (!TASK_TYPES.includes(job.task_type)) throw wrong(`${name}.task_type`, `must be one of ${TASK_TYPES.join(", ")}`, job.task_type);
    checkText(`${name}.input`, job.input);
    return job;
  }
  // Null counts as absent, as on the router.
  const { prompt, messages } = job;
  if (messages !== undefined && messages !== null) checkMessages(`${name}.messages`, messages);
  else checkText(`${name}.prompt`, prompt);
  if (prompt !== undefined && prompt !== null) checkText(`${name}.prompt`, prompt);
  checkAnswerMembers(job, name);
  return job;
}

const ROLES = ["system", "user", "assistant"] as const;

/** Checks the messages of a chat [JB12]. The error names them `option`. */
export function checkMessages(option: string, messages: unknown): void {
  if (!Array.isArray(messages)) throw wrong(option, "must be a list of messages", messages);
  if (messages.length === 0) throw new InvalidOptionError(option, "must not be empty");
  let bytes = 0;
  messages.forEach((message: unknown, at) => {
    if (!isJsonObject(message)) throw wrong(`${option}[${at}]`, 'must be an object, as { role: "user", content: "hi" }', message);
    checkChoice(`${option}[${at}].role`, message.role ?? "", ROLES);
    if (typeof message.content !== "string") throw wrong(`${option}[${at}].content`, "must be a string", message.content);
    bytes += utf8Length(message.content);
  });
  if (bytes > LIMITS.textBytes) throw new InvalidOptionError(option, `must have at most ${LIMITS.textBytes} bytes of UTF-8 together`);
}

/** Checks a job type. The error names it `option`. */
export function checkJobType(option: string, jobType: JobType): JobType {
  if (JOB_TYPES.includes(jobType)) return jobType;
  throw wrong(option, `must be one of ${JOB_TYPES.join(", ")}`, jobType);
}

/** The body of a commit as JSON text [SPEC]. */
export function commitBody(job: JobInput, userId: string, privacyClass: "PUBLIC" | "PRIVATE"): string {
  try {
    return JSON.stringify({ job_type: job.job_type, user_id: userId, payload: job, privacy_class: privacyClass });
  } catch {
    throw new InvalidOptionError("job", "must be JSON");
  }
}

/** Checks a text for a job. The error names it `field`. */
export function checkText(field: string, text: unknown): void {
  if (text === "") throw new InvalidOptionError(field, "must not be empty");
  if (typeof text !== "string") throw wrong(field, "must be a string", text);
  if (utf8Length(text) > LIMITS.textBytes) throw new InvalidOptionError(field, `must be at most ${LIMITS.textBytes} bytes of UTF-8`);
}
