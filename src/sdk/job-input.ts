// Jobs as users write them, with the options about the answer of an LLM: their types, their checks, and the body of the commit. On a job's way: before the
// commit.
import type { JobType, TaskType } from "../protocol/job.ts";
import { isJsonObject, isWellFormedJson } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { MODEL_NAME, MODEL_NAME_RULE, utf8Length } from "../protocol/text.ts";
import { checkChoice, checkInteger, checkNumber, wrong } from "./check.ts";
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

// Not the schemas of the protocol: the SDK has no zod.
const JOB_TYPES: readonly JobType[] = ["LLM_INFER", "TASK"];
const TASK_TYPES: readonly TaskType[] = ["summarize", "classify", "extract_json"];

/** Checks a job by the rules of the router, before the SDK sends anything [API2]. Throws InvalidOptionError with the field's name, which begins with `name`. */
export function checkJob(job: JobInput, name = "job"): JobInput {
  if (!isJsonObject(job)) throw wrong(name, "must be an object", job);
  checkJobType(`${name}.job_type`, job.job_type);
  checkUnicode(name, job);
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

/** Checks every text of a job. An object that holds itself has no last text, so the check of it ends with a RangeError, as would its JSON. */
function checkUnicode(name: string, job: object): void {
  let isWellFormed: boolean;
  try {
    isWellFormed = isWellFormedJson(job);
  } catch {
    throw new InvalidOptionError(name, "must be JSON");
  }
  if (!isWellFormed) throw new InvalidOptionError(name, "must hold well-formed Unicode only");
}

const ROLES = ["system", "user", "assistant"] as const;

/** Checks the messages of a chat [JB12]. The error names them `option`. */
export function checkMessages(option: string, messages: unknown): void {
  if (!Array.isArray(messages)) throw wrong(option, "must be a list of messages", messages);
  if (messages.length === 0) throw new InvalidOptionError(option, "must not be empty");
  if (messages.length > LIMITS.chatMessages) throw new InvalidOptionError(option, `must have at most ${LIMITS.chatMessages} entries`);
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

/** The form of an answer, as in OpenAI's API. */
export type ResponseFormat = { type: "text" | "json_object" | "json_schema"; [member: string]: unknown };

/** The members of an LLM_INFER payload that shape the answer, as in OpenAI's API. A worker that does not know one ignores it. */
type AnswerMembers = {
  /** The most tokens of the answer, 1 to 32,768. */
  max_tokens?: number;
  /** The model that must answer, as `models` lists it; compared without case. Absent or `auto` is any. */
  model?: string;
  /** 0 to 2. */
  temperature?: number;
  /** 0 to 1. */
  top_p?: number;
  /** Texts before which the answer ends: at most 16, of 1 to 256 characters each. */
  stop?: string | readonly string[];
  /** A whole number. */
  seed?: number;
  /** -2 to 2. */
  presence_penalty?: number;
  /** -2 to 2. */
  frequency_penalty?: number;
  /** Plain text, or JSON. */
  response_format?: ResponseFormat;
};

/** Options of `llm` and `chat` about the answer: the same members under the SDK's names. */
export type AnswerOptions = {
  /** The most tokens of the answer, 1 to 32,768. */
  maxTokens?: number;
  /** The model that must answer, as `models` lists it; compared without case. Default `auto`: any. */
  model?: string;
  /** 0 to 2; default: the worker's. */
  temperature?: number;
  /** 0 to 1; default: the worker's. */
  topP?: number;
  /** Texts before which the answer ends: at most 16, of 1 to 256 characters each. */
  stop?: string | readonly string[];
  /** A whole number: a worker may answer the same prompt and seed with the same text. */
  seed?: number;
  /** -2 to 2; default: the worker's. */
  presencePenalty?: number;
  /** -2 to 2; default: the worker's. */
  frequencyPenalty?: number;
  /** `{ type: "json_object" }` for JSON, or `{ type: "json_schema", json_schema }`; default: plain text. */
  responseFormat?: ResponseFormat;
};

/** The name of each option in the payload. */
const MEMBER_OF = {
  maxTokens: "max_tokens",
  model: "model",
  temperature: "temperature",
  topP: "top_p",
  stop: "stop",
  seed: "seed",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  responseFormat: "response_format",
} as const satisfies Record<keyof AnswerOptions, keyof AnswerMembers>;

/** The check of each member. The error names it `option`. */
const CHECKS: Record<keyof AnswerMembers, (option: string, value: unknown) => unknown> = {
  max_tokens: (option, value) => checkInteger(option, value, 1, LIMITS.maxTokens),
  model: checkModel,
  temperature: (option, value) => checkNumber(option, value, 0, 2),
  top_p: (option, value) => checkNumber(option, value, 0, 1),
  stop: checkStop,
  seed: (option, value) => checkInteger(option, value, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
  presence_penalty: (option, value) => checkNumber(option, value, -2, 2),
  frequency_penalty: (option, value) => checkNumber(option, value, -2, 2),
  response_format: (option, value) => {
    if (!isJsonObject(value)) throw wrong(option, 'must be an object, as { type: "json_object" }', value);
    const type = checkChoice(`${option}.type`, value.type ?? "", ["text", "json_object", "json_schema"]);
    if (type === "json_schema" && !isJsonObject(value.json_schema)) throw wrong(`${option}.json_schema`, "must be an object", value.json_schema);
    return type;
  },
};

/** Checks the name of a model [JB10]. The error names it `option`. */
export function checkModel(option: string, model: unknown): string | undefined {
  if (model === undefined) return undefined;
  if (typeof model !== "string") throw wrong(option, "must be a string", model);
  if (MODEL_NAME.test(model)) return model;
  throw new InvalidOptionError(option, MODEL_NAME_RULE);
}

/** True for a name that a model may have. */
export function isModelName(value: unknown): value is string {
  return typeof value === "string" && MODEL_NAME.test(value);
}

function checkStop(option: string, value: unknown): void {
  const texts: readonly unknown[] = Array.isArray(value) ? value : [value];
  const fits = texts.length <= LIMITS.stops && texts.every((text) => typeof text === "string" && text !== "" && text.length <= LIMITS.stopChars);
  if (!fits) throw wrong(option, `must be a text, or a list of at most ${LIMITS.stops} texts, of 1 to ${LIMITS.stopChars} characters each`, value);
}

/** Checks the members of a payload that shape the answer. Null counts as absent. `name` precedes the member's name in the error. */
function checkAnswerMembers(payload: object, name: string): void {
  for (const [member, check] of Object.entries(CHECKS)) {
    const value: unknown = Reflect.get(payload, member);
    if (value !== undefined && value !== null) check(`${name}.${member}`, value);
  }
}

/** The members of a payload that shape the answer, those that are there. */
export function answerMembersOf(payload: object): Record<string, unknown> {
  const members = Object.keys(CHECKS).map((member): [string, unknown] => [member, Reflect.get(payload, member)]);
  return Object.fromEntries(members.filter(([, value]) => value !== undefined && value !== null));
}

/** Checks the options about the answer and separates them, as members of the payload, from the other options of a call. Throws InvalidOptionError. */
export function takeAnswerOptions<T extends AnswerOptions>(options: T): { members: AnswerMembers; rest: Omit<T, keyof AnswerOptions> } {
  const { maxTokens, model, temperature, topP, stop, seed, presencePenalty, frequencyPenalty, responseFormat, ...rest } = options;
  const given = { maxTokens, model, temperature, topP, stop, seed, presencePenalty, frequencyPenalty, responseFormat };
  const members: AnswerMembers = {};
  for (const [option, value] of Object.entries(given)) {
    if (value === undefined || !isOption(option)) continue;
    CHECKS[MEMBER_OF[option]](option, value);
    Object.assign(members, { [MEMBER_OF[option]]: value });
  }
  return { members, rest };
}

function isOption(name: string): name is keyof AnswerOptions {
  return Object.hasOwn(MEMBER_OF, name);
}
