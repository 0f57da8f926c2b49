// A chat as an LLM_INFER payload may carry it: its messages, the options of its answer, and its transcript for workers that know only `prompt` [JB12].
// Then the requests and errors of OpenAI's API, as far as the coordinator takes them [API9].
import * as z from "zod";
import { isJsonObject } from "./json.ts";
import { LIMITS } from "./limits.ts";

const role = z.enum(["system", "user", "assistant"]);

export const ChatMessage = z.looseObject({ role, content: z.string().refine((text) => text.isWellFormed(), "must be well-formed Unicode") });
/** One message of a chat. */
export type ChatMessage = z.infer<typeof ChatMessage>;

const between = (min: number, max: number) => {
  const rule = `must be a number from ${min} to ${max}`;
  return z.number(rule).min(min, rule).max(max, rule);
};
const stopText = z.string().min(1, "must not be empty").max(LIMITS.stopChars);

/** The members of an LLM_INFER payload that make it a chat, as in OpenAI's API. Null counts as absent. */
export const CHAT_MEMBERS = {
  messages: z.array(ChatMessage).min(1, "must not be empty").max(LIMITS.chatMessages).nullish(),
  temperature: between(0, 2).nullish(),
  top_p: between(0, 1).nullish(),
  stop: z
    .union(
      [stopText, z.array(stopText).max(LIMITS.stops)],
      `must be a text, or a list of at most ${LIMITS.stops} texts, of 1 to ${LIMITS.stopChars} characters each`,
    )
    .nullish(),
  seed: z.int(`must be a whole number from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}`).nullish(),
  presence_penalty: between(-2, 2).nullish(),
  frequency_penalty: between(-2, 2).nullish(),
  response_format: z
    .looseObject({ type: z.enum(["text", "json_object", "json_schema"]) })
    // Runtimes fail at a type without its schema, each in a way of its own.
    .refine(({ type, json_schema: schema }) => type !== "json_schema" || isJsonObject(schema), { path: ["json_schema"], message: "must be an object" })
    .nullish(),
};

const ChatMembers = z.object(CHAT_MEMBERS);
type Members = z.infer<typeof ChatMembers>;
/** The messages and options of a payload that are there. */
export type ChatRequest = { [M in keyof Members]?: NonNullable<Members[M]> };

/** Reads the messages and options of a payload, for the worker. A member of another form counts as absent. Never throws. */
export function readChat(payload: Readonly<Record<string, unknown>>): ChatRequest {
  const read = Object.entries(CHAT_MEMBERS).map(([name, schema]) => [name, schema.safeParse(payload[name]).data] as const);
  return Object.fromEntries(read.filter(([, value]) => value !== undefined && value !== null));
}

const SPEAKER = { system: "System", user: "User", assistant: "Assistant" } as const;

/**
 * The messages as plain text, for a worker that knows only `prompt`. A chat of one user message is that message; a longer one names who speaks, and ends
 * where the assistant's turn begins.
 */
export function transcript(messages: readonly ChatMessage[]): string {
  const [only] = messages;
  if (messages.length === 1 && only?.role === "user") return only.content;
  return [...messages.map(({ role: speaker, content }) => `${SPEAKER[speaker]}: ${content}`), `${SPEAKER.assistant}:`].join("\n\n");
}

const Part = z.looseObject({ type: z.literal("text"), text: z.string() });
const Message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant"], "must be system, developer, user or assistant (tools are not supported)"),
  content: z.union([z.string(), z.array(Part)], "must be a text, or a list of texts (images and sound are not supported)"),
  tool_calls: z.array(z.unknown()).max(0, "must be absent (tools are not supported)").nullish(),
});

/** Members with which a request asks for what the coordinator does not do. They may be there only with the value that asks for nothing. */
const UNSUPPORTED = {
  n: z.literal(1, "must be 1").nullish(),
  tools: z.array(z.unknown()).max(0, "must be absent (tools are not supported)").nullish(),
  functions: z.array(z.unknown()).max(0, "must be absent (tools are not supported)").nullish(),
  modalities: z.tuple([z.literal("text")], "must be absent, or text only").nullish(),
  audio: z.null("must be absent").optional(),
  logprobs: z.union([z.literal(false), z.literal(0)], "must be absent").nullish(),
  echo: z.literal(false, "must be absent").nullish(),
  best_of: z.literal(1, "must be 1").nullish(),
  suffix: z.null("must be absent").optional(),
  web_search_options: z.null("must be absent (tools are not supported)").optional(),
  tool_choice: z.enum(["none", "auto"], "must be none or auto (tools are not supported)").nullish(),
  function_call: z.enum(["none", "auto"], "must be none or auto (tools are not supported)").nullish(),
  logit_bias: z
    .looseObject({})
    .refine((bias) => Object.keys(bias).length === 0, "must be absent or empty")
    .nullish(),
};

/** The names of these members. They are no part of what a worker gets. */
export const UNSUPPORTED_MEMBERS: readonly string[] = Object.keys(UNSUPPORTED);

const Common = z.looseObject({
  ...UNSUPPORTED,
  model: z.string().nullish(),
  user: z.string().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: z.int().nullish(),
  max_completion_tokens: z.int().nullish(),
});

/** If the messages have too many texts in parts, none is checked: a body has room for a hundred thousand, and each that is wrong would be one more problem. */
function fewTexts(messages: unknown, context: z.RefinementCtx): unknown {
  let texts = 0;
  for (const message of Array.isArray(messages) ? messages : []) if (isJsonObject(message) && Array.isArray(message.content)) texts += message.content.length;
  if (texts > LIMITS.chatMessages) context.addIssue(`must have at most ${LIMITS.chatMessages} texts in all`);
  return messages;
}

export const ChatCompletionRequest = Common.extend({
  messages: z.preprocess(fewTexts, z.array(Message).min(1, "must not be empty").max(LIMITS.chatMessages)),
}).meta({ id: "ChatCompletionRequest" });
/** Body of `POST /v1/chat/completions`. Other members, such as `temperature`, reach the worker [API9, JB12]. */
export type ChatCompletionRequest = z.infer<typeof ChatCompletionRequest>;

export const CompletionRequest = Common.extend({ prompt: z.union([z.string(), z.tuple([z.string()])], "must be one text") }).meta({ id: "CompletionRequest" });
/** Body of `POST /v1/completions` [API9]. */
export type CompletionRequest = z.infer<typeof CompletionRequest>;

export const OpenAiError = z.object({ error: z.object({ message: z.string(), type: z.string(), param: z.string().nullable(), code: z.string() }) }).meta({
  id: "OpenAiError",
  description:
    "An error in the form of OpenAI's API. `code` is the coordinator's own name of it; `param` is the wrong member, the first one if there are several.",
});
/** Body of an error of the endpoints of OpenAI's API [API9]. */
export type OpenAiError = z.infer<typeof OpenAiError>;
