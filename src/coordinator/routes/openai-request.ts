// Reads the requests of OpenAI's API: each becomes the commit of an LLM_INFER [API9]. The first step of such a job.
import type { ChatMessage } from "../../protocol/chat.ts";
import { describeIssues } from "../../protocol/issues.ts";
import { ChatCompletionRequest, CompletionRequest, UNSUPPORTED_MEMBERS } from "../../protocol/openai.ts";
import { isJsonObject, type Result } from "../../protocol/text.ts";

/** Which endpoint of OpenAI's API a request came to. */
export type OpenAiApi = "chat" | "completions";

/** A request of OpenAI's API, read. `payload` is that of the LLM_INFER; `user` is null if the request names none. */
export type OpenAiRequest = { payload: Record<string, unknown>; user: string | null; model: string; stream: boolean; includeUsage: boolean };

/** The members that are read here and do not go to the worker. */
const READ = [...UNSUPPORTED_MEMBERS, "user", "stream", "stream_options", "max_completion_tokens", "tool_choice", "function_call"];

/** Reads a request. What is wrong with it is said in a sentence that names the member. */
export function readOpenAi(api: OpenAiApi, body: unknown): Result<OpenAiRequest, string> {
  if (!isJsonObject(body)) return { ok: false, reason: "the body must be a JSON object" };
  const parsed = api === "chat" ? ChatCompletionRequest.safeParse(body) : CompletionRequest.safeParse(body);
  if (!parsed.success) return { ok: false, reason: describeIssues(parsed.error, body) };
  const { user, model, stream, stream_options, max_tokens, max_completion_tokens } = parsed.data;
  const others = Object.entries(body).filter(([name, value]) => !READ.includes(name) && value !== null);
  const text = textIn(parsed.data);
  const limit = max_completion_tokens ?? max_tokens;
  const payload = { ...Object.fromEntries(others), job_type: "LLM_INFER", ...text, ...(typeof limit === "number" && { max_tokens: limit }) };
  const includeUsage = stream_options?.include_usage === true;
  return { ok: true, value: { payload, user: user ?? null, model: model ?? "auto", stream: stream === true, includeUsage } };
}

/** The text that is answered, in the form of an LLM_INFER payload. */
function textIn(body: ChatCompletionRequest | CompletionRequest): { messages: ChatMessage[] } | { prompt: string } {
  return isChat(body) ? { messages: body.messages.map(messageOf) } : { prompt: [body.prompt].flat().join("") };
}

function isChat(body: ChatCompletionRequest | CompletionRequest): body is ChatCompletionRequest {
  return Array.isArray(body.messages);
}

/** A message in the form of an LLM_INFER payload: texts of several parts are joined, and a developer is the system [JB12]. */
function messageOf({ role, content }: ChatCompletionRequest["messages"][number]): ChatMessage {
  const text = typeof content === "string" ? content : content.map((part) => part.text).join("");
  return { role: role === "developer" ? "system" : role, content: text };
}
