// The requests and errors of OpenAI's API, as far as the coordinator takes them [API9]. The first step of a job that comes that way.
import * as z from "zod";

const Part = z.looseObject({ type: z.literal("text", "must be text: images and sound are not supported"), text: z.string() });
const Message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant"], "must be system, developer, user or assistant: tools are not supported"),
  content: z.union([z.string(), z.array(Part)], "must be a text, or a list of texts"),
  tool_calls: z.array(z.unknown()).max(0, "must be absent: tools are not supported").nullish(),
});

/** Members with which a request asks for what the coordinator does not do. They may be there only with the value that asks for nothing. */
const UNSUPPORTED = {
  n: z.literal(1, "must be 1").nullish(),
  tools: z.array(z.unknown()).max(0, "must be absent: tools are not supported").nullish(),
  functions: z.array(z.unknown()).max(0, "must be absent: tools are not supported").nullish(),
  modalities: z.tuple([z.literal("text")], "must be absent, or text only").nullish(),
  audio: z.null("must be absent").optional(),
  logprobs: z.union([z.literal(false), z.literal(0)], "must be absent").nullish(),
  echo: z.literal(false, "must be absent").nullish(),
  best_of: z.literal(1, "must be 1").nullish(),
  suffix: z.null("must be absent").optional(),
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
export const ChatCompletionRequest = Common.extend({ messages: z.array(Message).min(1, "must not be empty") }).meta({ id: "ChatCompletionRequest" });
/** Body of `POST /v1/chat/completions`. Other members, such as `temperature`, reach the worker [API9, JB12]. */
export type ChatCompletionRequest = z.infer<typeof ChatCompletionRequest>;

export const CompletionRequest = Common.extend({ prompt: z.union([z.string(), z.tuple([z.string()])], "must be one text") }).meta({ id: "CompletionRequest" });
/** Body of `POST /v1/completions` [API9]. */
export type CompletionRequest = z.infer<typeof CompletionRequest>;

export const OpenAiError = z
  .object({ error: z.object({ message: z.string(), type: z.string(), param: z.null(), code: z.string() }) })
  .meta({ id: "OpenAiError", description: "An error in the form of OpenAI's API. `code` is the coordinator's own name of it." });
/** Body of an error of the endpoints of OpenAI's API [API9]. */
export type OpenAiError = z.infer<typeof OpenAiError>;
