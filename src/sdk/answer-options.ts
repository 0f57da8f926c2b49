// What a seeker asks of an LLM's answer besides its text: the model, the sampling and the form, with their checks. They are members of the job's payload.
import { LIMITS } from "../protocol/limits.ts";
import { isJsonObject } from "../protocol/text.ts";
import { checkChoice, checkInteger, checkNumber, wrong } from "./check.ts";
import { InvalidOptionError } from "./errors.ts";

/** The form of an answer, as in OpenAI's API. */
export type ResponseFormat = { type: "text" | "json_object" | "json_schema"; [member: string]: unknown };

/** The members of an LLM_INFER payload that shape the answer, as in OpenAI's API. A worker that does not know one ignores it. */
export type AnswerMembers = {
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
    return checkChoice(`${option}.type`, value.type ?? "", ["text", "json_object", "json_schema"]);
  },
};

const MODEL_NAME = new RegExp(`^[A-Za-z0-9._:/@+-]{1,${LIMITS.modelNameChars}}$`);

/** Checks the name of a model [JB10]. The error names it `option`. */
export function checkModel(option: string, model: unknown): string | undefined {
  if (model === undefined) return undefined;
  if (typeof model !== "string") throw wrong(option, "must be a string", model);
  if (MODEL_NAME.test(model)) return model;
  throw new InvalidOptionError(option, `must be 1 to ${LIMITS.modelNameChars} of A-Z a-z 0-9 . _ : / @ + -`);
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
export function checkAnswerMembers(payload: object, name: string): void {
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
