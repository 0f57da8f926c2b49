import { LIMITS } from "../protocol/limits.ts";
import { isShallowJson } from "../protocol/text.ts";

/** The most bytes read of an answer: the largest output and as much again for what is around it. */
export const MAX_BYTES = 2 * LIMITS.outputBytes;
/** An output of the deepest nesting stands inside `result` of a job. */
const MAX_DEPTH = LIMITS.jsonDepth + 4;

/** What reading a body as JSON gave. */
export type BodyReading = { ok: true; value: unknown } | { ok: false; reason: "too_long" | "not_utf8" | "not_json" | "too_deep" };

/** Reads a whole body of bounded size as JSON. Rejects, with the platform's own error, only when the connection breaks. */
export async function readBody(response: Response): Promise<BodyReading> {
  const bytes = await readBytes(response);
  if (bytes === null) return { ok: false, reason: "too_long" };
  let text: string;
  try {
    // A replacement character would surface later as a receipt that does not hold.
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { ok: false, reason: "not_utf8" };
  }
  return readJsonText(text);
}

/** Parses a text that is JSON of a bounded depth. */
export function readJsonText(text: string): BodyReading {
  if (!isShallowJson(text, MAX_DEPTH)) return { ok: false, reason: "too_deep" };
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, reason: "not_json" };
  }
}

async function readBytes(response: Response): Promise<Uint8Array | null> {
  if (response.body === null) return new Uint8Array();
  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return joined(chunks, length);
      length += value.length;
      if (length > MAX_BYTES) return null;
      chunks.push(value);
    }
  } finally {
    // Not awaited: a peer that never stops sending would hold us here.
    reader.cancel().catch(() => {});
  }
}

function joined(chunks: Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
