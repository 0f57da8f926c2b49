import { createParser } from "eventsource-parser";
import { parseJson } from "./chat-answer.ts";
import { RuntimeError } from "./runtime.ts";

/** Most bytes taken of a body that is not streamed, and of one event of a stream. */
const MAX_BODY_BYTES = 8 * 1024 * 1024;

/**
 * The `data` of each server-sent event of a response, as it arrives. A connection that breaks ends it with RuntimeError; leaving the loop
 * early closes the connection, which is what makes a runtime stop generating.
 */
export async function* eventData(response: Response): AsyncGenerator<string, void, undefined> {
  const ready: string[] = [];
  const parser = createParser({ maxBufferSize: MAX_BODY_BYTES, onEvent: (event) => ready.push(event.data), onError: refuseOverflow });
  for await (const text of decoded(response)) {
    parser.feed(text);
    yield* ready.splice(0);
  }
  // A server that leaves out the last blank line has still sent its last event; half an event is a cut stream, not broken JSON.
  parser.feed("\n\n");
  yield* ready.filter((data) => data === "[DONE]" || parseJson(data) !== undefined);
}

/** The whole body as text. Rejects with RuntimeError when the connection breaks or the body is too long. */
export async function bodyText(response: Response): Promise<string> {
  let whole = "";
  for await (const text of decoded(response)) {
    whole += text;
    if (whole.length > MAX_BODY_BYTES) throw new RuntimeError("output_too_large", "the answer of the runtime is too long", { retryable: false });
  }
  return whole;
}

async function* decoded(response: Response): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new RuntimeError("runtime_error", "the connection to the runtime broke in the middle of the answer", { cause });
      });
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
