import { LIMITS } from "../../protocol/limits.ts";
import { readJson } from "../../protocol/text.ts";
import type { AppContext } from "./context.ts";
import { refuse, refuseWith } from "./errors.ts";
import { createHash, timingSafeEqual } from "node:crypto";
import type { CommitRequest, ResolvedPolicy } from "../../protocol/job.ts";
import { canonicalize } from "../../receipt/receipt.ts";
import { toHex } from "../../receipt/bytes.ts";

/** What reading a body gave. */
export type BodyResult = { ok: true; value: unknown; text: string } | { ok: false; status: 400 | 413 | 415; error: string };

/**
 * Reads a JSON body of at most `limit` bytes, counted as they arrive, so that neither a missing nor a false Content-Length helps [LM1].
 * The content type is not asked: seekers forget it [API2]. A byte order mark is skipped, bytes that are not UTF-8 are refused.
 */
export async function readJsonBody(request: Request, limit: number = LIMITS.bodyBytes): Promise<BodyResult> {
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
export function refuseBody(c: AppContext, reading: Extract<BodyResult, { ok: false }>, required: string): Response {
  if (reading.status === 413) return refuse(c, "payload_too_large");
  return refuseWith(c, reading.status, reading.status === 400 ? `${reading.error}. ${required}` : reading.error);
}

/** What the header `X-User-Token` said: the hash that is kept of it, null where it was not sent; or what is wrong with it. */
export type TokenResult = { ok: true; hash: string | null } | { ok: false; error: string };

const TOKEN = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.userTokenChars}}$`);

/** Reads a user's token [TR2]. Its hash is SHA-256 over a name, the user and the token, so that two users with one token have two hashes. */
export function readUserToken(header: string | undefined, userId: string): TokenResult {
  if (header === undefined) return { ok: true, hash: null };
  if (!TOKEN.test(header)) return { ok: false, error: `X-User-Token must be 1 to ${LIMITS.userTokenChars} printable ASCII characters` };
  return { ok: true, hash: createHash("sha256").update(`compute-router/user-token/v1\n${userId}\n${header}`).digest("hex") };
}

/** Whether who sent `given` may act for a user to whom `bound` stands; takes as long for a wrong token as for the right one. */
export function provesUser(given: string | null, bound: string | null): boolean {
  if (bound === null) return true;
  return given !== null && given.length === bound.length && timingSafeEqual(Buffer.from(given), Buffer.from(bound));
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The id in the path, in lower case; null when it is none, so that no job has it. */
export function jobId(c: AppContext): string | null {
  const id = (c.req.param("id") ?? "").toLowerCase();
  return UUID.test(id) ? id : null;
}

/**
 * What makes two commits the same under one `Idempotency-Key` [API5]: lowercase hex of SHA-256 over the canonical JSON of the endpoint
 * and of what the worker and the rules see. `payload` is the one for the worker, so members that only travel along count too.
 */
export async function fingerprint(policy: ResolvedPolicy, commit: CommitRequest, payload: Record<string, unknown>): Promise<string> {
  const { job_type, user_id, privacy_class } = commit;
  const text = JSON.stringify(canonicalize({ policy, job_type, user_id, privacy_class, payload }));
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}
