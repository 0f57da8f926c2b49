// Reads what a request brings: its client, its body, the user token, the job id, how long it waits, and the fingerprint of a commit. The first step of a
// commit.
import { hash, timingSafeEqual } from "node:crypto";
import type { CommitRequest, ResolvedPolicy } from "../../protocol/job.ts";
import { isJsonObject, readJson } from "../../protocol/json.ts";
import { LIMITS, MiB } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";
import { readBytes } from "../../protocol/text.ts";
import { MAX_WAIT_SECONDS, SECOND, TIMING } from "../../protocol/times.ts";
import { toHex } from "../../receipt/bytes.ts";
import type { Settings } from "../config.ts";
import { LATE, within } from "../deadline.ts";
import { networkOf, UNKNOWN_CLIENT } from "../rates/network.ts";
import { TUNING } from "../tuning.ts";
import { PlainRequest } from "./channel-http.ts";
import { type AppContext, refuse, refuseWith } from "./context.ts";

/**
 * Returns the client that a request is counted for: an IPv4 address or an IPv6 /64 [LM2]. `CF-Connecting-IP` can be trusted only on Cloudflare:
 * a local emulation passes on what the client sent and cannot see the client's address. Elsewhere the setting names the header of the operator's
 * proxy, or of the front of `npm run serve`; without it all clients share one count.
 */
export function clientOf(request: Request, settings: Pick<Settings, "trustedIpHeader">, deployed: boolean = DEPLOYED): string {
  if (settings.trustedIpHeader !== null) {
    // A proxy appends the address that it saw. The entries before it came from outside and prove nothing.
    return networkOf(request.headers.get(settings.trustedIpHeader)?.split(",").at(-1) ?? "") || UNKNOWN_CLIENT;
  }
  const address = isAtCloudflare(request, deployed) ? request.headers.get("CF-Connecting-IP") : null;
  return address === null ? UNKNOWN_CLIENT : networkOf(address);
}

/** True in deployed code, false in a local emulation. wrangler sets the value at build time, so no request can influence it. */
const DEPLOYED = process.env.NODE_ENV === "production";

/** True if the request came through Cloudflare's edge. Deployed code is not enough: if someone runs it in a bare workerd, its requests have no `cf`. */
export function isAtCloudflare(request: Request, deployed: boolean = DEPLOYED): boolean {
  return deployed && request.cf !== undefined;
}

/** A JSON body, parsed and as the text that was sent. */
type JsonBody = { json: unknown; text: string };

/** Why a body cannot be read: the status and message of the answer. */
type BodyFault = { status: 400 | 413 | 415; error: string };

/**
 * How many bytes of a body that is too long are read and dropped: enough for a chat with pictures. The transport breaks the connection of a request that is
 * answered earlier, and a client that sends everything before it reads would then not see the answer.
 */
const DROPPED_BYTES = 16 * MiB - LIMITS.bodyBytes;

/**
 * Reads a JSON body of at most `limit` bytes, whatever its Content-Length says, and gives up on one that does not end: its connection would be kept [LM1].
 * Content-Type is not checked, because many clients forget it [API2]. A byte order mark is skipped; bytes that are not UTF-8 are refused.
 */
export async function readJsonBody(request: Request, limit: number = LIMITS.bodyBytes): Promise<Result<JsonBody, BodyFault>> {
  const encoding = request.headers.get("Content-Encoding")?.trim().toLowerCase() ?? "";
  if (encoding !== "" && encoding !== "identity") return failed(415, "Content-Encoding is not supported");
  const announced = announcedBytes(request);
  if (announced !== null && announced > limit + DROPPED_BYTES) return failed(413, "payload_too_large");
  let text: string;
  if (request instanceof PlainRequest) text = request.text;
  else
    try {
      // A transport delivers no more bytes than were announced, so such a body can be read in one call, which costs a third of reading it in parts.
      const reading = announced !== null && announced <= limit ? request.bytes() : readBytes(request.body, limit, DROPPED_BYTES);
      const bytes = await within(TIMING.body, reading);
      if (bytes === LATE) return failed(400, `Body must be complete within ${TIMING.body / SECOND} s`);
      if (bytes === null || bytes.length > limit) return failed(413, "payload_too_large");
      text = UTF8.decode(bytes);
    } catch {
      return failed(400, "Body must be complete and UTF-8");
    }
  const json = readJson(text, { values: LIMITS.jsonValues });
  return json.ok ? { ok: true, value: { json: json.value, text } } : failed(400, UNREADABLE[json.reason]);
}

/** What the answer says about JSON that was not read. */
const UNREADABLE = {
  invalid_json: "Body must be valid JSON",
  too_deep: `Body nests deeper than ${LIMITS.jsonDepth} levels`,
  too_many_values: `Body has more than ${LIMITS.jsonValues} values`,
};

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** The Content-Length; null if there is none, or no number. */
function announcedBytes({ headers }: Request): number | null {
  const length = headers.get("Content-Length") ?? "";
  return /^\d+$/.test(length) ? Number(length) : null;
}

/**
 * Reads and drops a body that no route has read, such as that of a commit without a payment, for the reason that {@link DROPPED_BYTES} has. A client that waits
 * for the answer before it sends its body is soon answered.
 */
export async function dropBody(request: Request): Promise<void> {
  // Asked first, because the platform makes a stream as soon as the body is read.
  if (request.bodyUsed) return;
  const { body } = request;
  const most = LIMITS.bodyBytes + DROPPED_BYTES;
  if (body === null || (announcedBytes(request) ?? 0) > most) return;
  const reader = body.getReader();
  const end = Date.now() + TIMING.body;
  try {
    for (let dropped = 0; dropped <= most && Date.now() < end;) {
      const part = await within(TUNING.bodyPause, reader.read());
      if (part === LATE || part.done) return;
      dropped += part.value.length;
    }
  } catch {
    // The client has left.
  } finally {
    reader.cancel().catch(() => {});
  }
}

function failed(status: BodyFault["status"], error: string): { ok: false; reason: BodyFault } {
  return { ok: false, reason: { status, error } };
}

/** Answers a body that could not be read. A 400 also says what the body must contain. */
export function refuseBody(c: AppContext, { status, error }: BodyFault, required: string): Response {
  if (status === 413) return refuse(c, "payload_too_large");
  return refuseWith(c, status, status === 400 ? `${error}. ${required}` : error);
}

const TOKEN = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.userTokenChars}}$`);

/**
 * Reads the header `X-User-Token` and returns the hash of the token, null if none was sent [TR2]. The hash covers the user id too, so that two users
 * with the same token have different hashes.
 */
export function readUserToken(header: string | undefined, userId: string): Result<string | null, string> {
  if (header === undefined) return { ok: true, value: null };
  if (!TOKEN.test(header)) return { ok: false, reason: `X-User-Token must be 1 to ${LIMITS.userTokenChars} printable ASCII characters` };
  return { ok: true, value: hash("sha256", `compute-router/user-token/v1\n${userId}\n${header}`) };
}

/** True if a request with the token hash `given` may act for a user whose stored hash is `bound`. The comparison takes constant time. */
export function provesUser(given: string | null, bound: string | null): boolean {
  if (bound === null) return true;
  return given !== null && given.length === bound.length && timingSafeEqual(Buffer.from(given), Buffer.from(bound));
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns the job id of the path in lower case; null if it is not a UUID, because then no job can have it. */
export function readJobId(c: AppContext): string | null {
  const id = (c.req.param("id") ?? "").toLowerCase();
  return UUID.test(id) ? id : null;
}

/**
 * Returns the fingerprint by which two commits are compared [API5, PY6]: SHA-256 in lowercase hex over the canonical JSON of the endpoint and of
 * the fields that decide what runs. `payload` is the one that goes to the worker, so unknown members count too.
 */
export async function fingerprint(policy: ResolvedPolicy, commit: CommitRequest, payload: Record<string, unknown>): Promise<string> {
  const { job_type, user_id, privacy_class } = commit;
  const text = canonicalText({ policy, job_type, user_id, privacy_class, payload });
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/** `JSON.stringify(canonicalize(value))` of parsed JSON, without the copy, which costs more than the text. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const names = Object.keys(value);
  // Names that are array indexes come first in every object, in their order.
  const from = names.findIndex((name) => !isIndex(name));
  const sorted = from < 0 ? names : [...names.slice(0, from), ...names.slice(from).toSorted()];
  return `{${sorted.map((name) => `${JSON.stringify(name)}:${canonicalText(value[name])}`).join(",")}}`;
}

const isIndex = (name: string): boolean => /^(?:0|[1-9]\d{0,9})$/.test(name) && Number(name) < 2 ** 32 - 1;

/**
 * One preference of a `Prefer` header: `name`, `name=value` or `name="quoted value"`; parameters after `;` are ignored.
 * An unquoted value has at least one character. If it could be empty, a long run of blanks would match in so many ways that one header would take minutes.
 */
const PREFERENCE = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*(?:=\s*(?:(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))\s*)?)?(?:;|$)/;

/**
 * Returns the seconds that a `Prefer` header asks to wait, at most {@link MAX_WAIT_SECONDS}; 0 without `wait` (RFC 7240 §4.3).
 * As the RFC says, unknown preferences are ignored, and the first of several `wait` counts.
 */
export function preferredWait(header: string | undefined): number {
  for (const item of splitList(header ?? "")) {
    const [, name, quoted, token] = PREFERENCE.exec(item) ?? [];
    if (name?.toLowerCase() !== "wait") continue;
    const value = quoted ?? token ?? "";
    return /^\d+$/.test(value) ? Math.min(Number(value), MAX_WAIT_SECONDS) : 0;
  }
  return 0;
}

/** Returns the seconds of the query parameter `wait`, at most {@link MAX_WAIT_SECONDS}; 0 if absent, null if it is not a whole number [API6]. */
export function waitParameter(value: string | undefined): number | null {
  if (value === undefined) return 0;
  return /^\d+$/.test(value) ? Math.min(Number(value), MAX_WAIT_SECONDS) : null;
}

/** Starts a wait of `seconds` and returns a function that says how many whole seconds are left: a retry waits only for the rest. */
export function waitLeft(seconds: number, clock: () => number = Date.now): () => number {
  const end = clock() + seconds * 1_000;
  // A clock that was set back makes no wait longer.
  return () => Math.min(seconds, Math.max(0, Math.ceil((end - clock()) / 1_000)));
}

/** Splits at commas outside quotes. */
function splitList(header: string): string[] {
  const items: string[] = [];
  let start = 0;
  let quoted = false;
  for (let i = 0; i < header.length; i++) {
    const char = header[i];
    if (quoted && char === "\\") i++;
    else if (char === '"') quoted = !quoted;
    else if (char === "," && !quoted) {
      items.push(header.slice(start, i));
      start = i + 1;
    }
  }
  items.push(header.slice(start));
  return items;
}

/** The URL that the client asked for. A proxy that ends TLS speaks plain HTTP to us; a false header changes only what its sender sees. */
export function clientUrl(c: AppContext): URL {
  const url = new URL(c.req.url);
  if (c.req.header("X-Forwarded-Proto") === "https") url.protocol = "https:";
  return url;
}
