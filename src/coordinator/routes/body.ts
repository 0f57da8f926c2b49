import { LIMITS } from "../../protocol/limits.ts";
import { readJson } from "../../protocol/text.ts";
import type { AppContext } from "./app-env.ts";
import { refuse, refuseWith } from "./refuse.ts";

/** What reading a body gave. */
export type BodyReading = { ok: true; value: unknown; text: string } | { ok: false; status: 400 | 413 | 415; error: string };

/**
 * Reads a JSON body of at most `limit` bytes, counted as they arrive, so that neither a missing nor a false Content-Length helps [LM1].
 * The content type is not asked: seekers forget it [API2]. A byte order mark is skipped, bytes that are not UTF-8 are refused.
 */
export async function readJsonBody(request: Request, limit: number = LIMITS.bodyBytes): Promise<BodyReading> {
  const encoding = request.headers.get("Content-Encoding")?.trim().toLowerCase() ?? "";
  if (encoding !== "" && encoding !== "identity") return { ok: false, status: 415, error: "Content-Encoding is not supported" };
  if (Number(request.headers.get("Content-Length") ?? 0) > limit) return { ok: false, status: 413, error: "payload_too_large" };
  let text = "";
  if (request.body !== null) {
    const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
    let bytes = 0;
    try {
      for await (const chunk of request.body) {
        bytes += chunk.byteLength;
        // Leaving the loop cancels the stream.
        if (bytes > limit) return { ok: false, status: 413, error: "payload_too_large" };
        text += utf8.decode(chunk, { stream: true });
      }
      text += utf8.decode();
    } catch {
      return { ok: false, status: 400, error: "Body must be complete and UTF-8" };
    }
  }
  const json = readJson(text);
  if (json.ok) return { ok: true, value: json.value, text };
  return { ok: false, status: 400, error: json.reason === "too_deep" ? `Body nests deeper than ${LIMITS.jsonDepth} levels` : "Body must be valid JSON" };
}

/** The answer to a body that could not be read; a 400 goes on with what the body must have. */
export function refuseBody(c: AppContext, reading: Extract<BodyReading, { ok: false }>, required: string): Response {
  if (reading.status === 413) return refuse(c, "payload_too_large");
  return refuseWith(c, reading.status, reading.status === 400 ? `${reading.error}. ${required}` : reading.error);
}
