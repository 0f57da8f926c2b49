// Reads the HTTP answers of a runtime within bounds: event streams, whole bodies and error bodies. On a job's way: the run of an LLM_INFER.
import { createParser } from "eventsource-parser";
import { parseJson, readBytes } from "../../protocol/text.ts";
import { isContextExceeded, readFailure } from "./chat-answer.ts";
import { RuntimeError } from "./runtime.ts";

/** The limit for a body that is not streamed, and for one event of a stream. */
const MAX_BODY_BYTES = 8 * 1024 * 1024;

/**
 * The `data` of each server-sent event of a response, as it arrives. It throws RuntimeError if the connection breaks. Leaving the loop early closes the
 * connection, and that makes the runtime stop generating.
 */
export async function* eventData(response: Response): AsyncGenerator<string, void, undefined> {
  const ready: string[] = [];
  const parser = createParser({ maxBufferSize: MAX_BODY_BYTES, onEvent: (event) => ready.push(event.data), onError: refuseOverflow });
  for await (const text of decoded(response)) {
    parser.feed(text);
    yield* ready.splice(0);
  }
  // A server may omit the last blank line after a complete event. An incomplete event means that the stream was cut; it is not malformed JSON.
  parser.feed("\n\n");
  yield* ready.filter((data) => data === "[DONE]" || parseJson(data) !== undefined);
}

/** The whole body as text. Rejects with RuntimeError if the connection breaks or the body is too long. */
export async function bodyText(response: Response): Promise<string> {
  const bytes = await readBytes(response.body, MAX_BODY_BYTES).catch(connectionBroke);
  if (bytes === null) throw new RuntimeError("output_too_large", "the answer of the runtime is too long", { retryable: false });
  return new TextDecoder().decode(bytes);
}

function connectionBroke(cause: unknown): never {
  throw new RuntimeError("runtime_error", "the connection to the runtime broke in the middle of the answer", { cause });
}

async function* decoded(response: Response): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(connectionBroke);
      if (done) break;
      yield decoder.decode(value, { stream: true });
    }
    yield decoder.decode();
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function refuseOverflow(error: { type: string }): void {
  if (error.type === "max-buffer-size-exceeded") throw new RuntimeError("output_too_large", "the runtime sent an event that is too long", { retryable: false });
}

/** Makes the RuntimeError for an answer with an error status. It reads the body. */
export async function httpFailure(response: Response, model: string): Promise<RuntimeError> {
  const { status } = response;
  const failure = readFailure(parseJson(await bodyText(response).catch(() => "")));
  const said = failure === undefined ? `HTTP ${status}` : `HTTP ${status}: ${failure.message}`;
  const about = `${failure?.codes ?? ""} ${failure?.message ?? ""}`;
  if (status === 401 || status === 403) return new RuntimeError("runtime_error", `the runtime refuses the worker (${said}): set LLM_API_KEY`);
  if (/model_not_found/.test(about) || (status === 404 && /model/i.test(about)))
    return new RuntimeError("model_missing", `the runtime has no model "${model}" (${said})`);
  // LM Studio reports this with status 500 too.
  if (failure !== undefined && isContextExceeded(failure)) return new RuntimeError("context_length_exceeded", `the prompt does not fit the context (${said})`);
  if (status === 404 || status === 405) return new RuntimeError("runtime_error", `there is no chat completion at ${new URL(response.url).pathname} (${said})`);
  if (status === 503) return new RuntimeError("runtime_error", `the runtime is loading its model or overloaded (${said})`);
  if (status === 408 || status === 429 || status >= 500) return new RuntimeError("runtime_error", `the runtime failed (${said})`);
  return new RuntimeError("runtime_error", `the runtime refuses the prompt (${said})`, { retryable: false });
}
