import { isContextExceeded, parseJson, readFailure } from "./chat-answer.ts";
import { bodyText } from "./response-body.ts";
import { RuntimeError } from "./runtime.ts";

/** Turns an answer with an error status into the RuntimeError to throw. Reads the body. */
export async function httpFailure(response: Response, model: string): Promise<RuntimeError> {
  const { status } = response;
  const failure = readFailure(parseJson(await bodyText(response).catch(() => "")));
  const said = failure === undefined ? `HTTP ${status}` : `HTTP ${status}: ${failure.message}`;
  const about = `${failure?.codes ?? ""} ${failure?.message ?? ""}`;
  if (status === 401 || status === 403) return new RuntimeError("runtime_error", `the runtime refuses the worker (${said}): set LLM_API_KEY`);
  if (/model_not_found/.test(about) || (status === 404 && /model/i.test(about)))
    return new RuntimeError("model_missing", `the runtime has no model "${model}" (${said})`);
  // Also with status 500: LM Studio says so while it answers.
  if (failure !== undefined && isContextExceeded(failure)) return new RuntimeError("context_length_exceeded", `the prompt does not fit the context (${said})`);
  if (status === 404 || status === 405) return new RuntimeError("runtime_error", `there is no chat completion at ${new URL(response.url).pathname} (${said})`);
  if (status === 503) return new RuntimeError("runtime_error", `the runtime is loading its model or overloaded (${said})`);
  if (status === 408 || status === 429 || status >= 500) return new RuntimeError("runtime_error", `the runtime failed (${said})`);
  return new RuntimeError("runtime_error", `the runtime refuses the prompt (${said})`, { retryable: false });
}
