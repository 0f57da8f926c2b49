// Reads a chat completion request of OpenAI's API for the embedded llama.cpp: messages, options and the form of the answer.
const HISTORY_TYPE = { system: "system", developer: "system", user: "user", assistant: "model" };

/** A request that can never be answered; the message says what to change. */
export class InvalidRequest extends Error {
  code = "invalid_request_error";
}

/** Reads an OpenAI chat completion body into what the engine takes. Throws InvalidRequest. */
export function parseChatRequest(body) {
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw new InvalidRequest("the body must be a JSON object");
  const { messages, stream = false, stream_options: streamOptions } = body;
  if (!Array.isArray(messages) || messages.length === 0) throw new InvalidRequest("messages must be a list that is not empty");
  const stop = [body.stop ?? []].flat();
  if (!stop.every((trigger) => typeof trigger === "string" && trigger !== "")) throw new InvalidRequest("stop must be strings");
  return {
    history: messages.map(historyItem),
    stream: stream === true,
    includeUsage: streamOptions?.include_usage === true,
    maxTokens: number(body, "max_completion_tokens", 1) ?? number(body, "max_tokens", 1),
    sampling: {
      temperature: number(body, "temperature", 0) ?? 0,
      topP: number(body, "top_p", 0) ?? 1,
      seed: number(body, "seed", 0),
      customStopTriggers: stop,
      ...penalties(body),
    },
    format: answerFormat(body.response_format),
  };
}

/** The engine's own penalty stays where a body names none. */
function penalties(body) {
  const [presencePenalty, frequencyPenalty] = [number(body, "presence_penalty", -2), number(body, "frequency_penalty", -2)];
  return presencePenalty === undefined && frequencyPenalty === undefined ? {} : { repeatPenalty: { presencePenalty, frequencyPenalty } };
}

/** The form of the answer: null for text, "json" for any JSON, or a JSON schema. */
function answerFormat(format) {
  switch (format?.type) {
    case undefined:
    case "text":
      return null;
    case "json_object":
      return "json";
    case "json_schema":
      if (typeof format.json_schema?.schema !== "object") throw new InvalidRequest("response_format.json_schema.schema must be an object");
      return format.json_schema.schema;
    default:
      throw new InvalidRequest("response_format.type must be text, json_object or json_schema");
  }
}

function historyItem(message, index) {
  const type = HISTORY_TYPE[message?.role];
  const content = contentText(message?.content);
  if (type === undefined || content === undefined) throw new InvalidRequest(`messages[${index}] must have a role and text as content`);
  return type === "model" ? { type, response: [content] } : { type, text: content };
}

function contentText(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content) || !content.every((part) => part?.type === "text" && typeof part.text === "string")) return undefined;
  return content.map((part) => part.text).join("");
}

function number(body, name, least) {
  const value = body[name] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !(value >= least)) throw new InvalidRequest(`${name} must be a number of at least ${least}`);
  return value;
}
