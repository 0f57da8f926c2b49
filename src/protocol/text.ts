// Text at the border: measure it, read it as bytes, show it, and compare its known forms (codes, names, addresses, times). Every step of a job's way uses it,
// and it imports the limits only.
import { LIMITS } from "./limits.ts";

/** Number of bytes of `text` in UTF-8, without encoding it. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    // Each half of a surrogate pair counts 2, the pair 4.
    else bytes += unit >= 0xd800 && unit <= 0xdfff ? 1 : 2;
  }
  return bytes;
}

/** The part of a `ReadableStream` of bytes that a reader of a whole body needs. Browsers, Node and Workers have it under types of their own. */
type ByteStream = { getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<unknown> } };

/**
 * Reads a body to its end; null if it is longer than `limit` bytes. Of a longer one it reads and drops up to `dropped` bytes more. The bytes are counted as
 * they arrive, because a Content-Length may be missing or wrong.
 * @throws what the stream throws
 */
export async function readBytes(body: ByteStream | null, limit: number, dropped: number = 0): Promise<Uint8Array<ArrayBuffer> | null> {
  const reader = body?.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      if (part.value === undefined) continue;
      length += part.value.length;
      if (length > limit + dropped) return null;
      if (length <= limit) chunks.push(part.value);
      else chunks.length = 0;
    }
  } finally {
    // Not awaited: a peer that never stops sending would block this call.
    reader?.cancel().catch(() => {});
  }
  if (length > limit) return null;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** The form of a pairing code: 24 random bits in upper-case hex [SPEC]. */
export const PAIRING_CODE = /^[0-9A-F]{6}$/;

/** The form of a model name [JB10]. */
export const MODEL_NAME = new RegExp(`^[A-Za-z0-9._:/@+-]{1,${LIMITS.modelNameChars}}$`);
/** That form in words, for a message. */
export const MODEL_NAME_RULE = `must be 1 to ${LIMITS.modelNameChars} of A-Z a-z 0-9 . _ : / @ + -`;

/** True for the two statuses that a job never leaves. It stands here and not beside the schema, because the SDK has no zod. */
export function isTerminal(status: string): status is "completed" | "failed" {
  return status === "completed" || status === "failed";
}

/** The short form of a job id, for people: its last eight characters. Jobs of the same minute often have the same first ones. */
export function shortJobId(id: string): string {
  return id.slice(-8);
}

/** True for the host of a URL that leads to the machine that uses it: `localhost`, 127.0.0.0/8 or `[::1]`. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d+){3}$/.test(hostname);
}

/** The one spelling of a token or account of a chain. EVM addresses are hex, so their case does not count; every other address is exact. */
export function normalizeAddress(address: string): string {
  return address.startsWith("0x") ? address.toLowerCase() : address;
}

/** True if two texts name the same token or account of a chain. */
export function isSameAddress(a: string, b: string): boolean {
  return normalizeAddress(a) === normalizeAddress(b);
}

/** Reads an ISO 8601 date and time with zone, as milliseconds since the epoch; null for anything else. */
export function parseIsoTime(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.test(text)) return null;
  const time = Date.parse(text);
  return Number.isNaN(time) ? null : time;
}

/** Milliseconds since the epoch as ISO 8601 with milliseconds, UTC. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** A message repeats a text of at most this many characters. */
const SHOWN_CHARS = 32;

/**
 * A value in a form that is safe in a message: numbers and short printable texts are shown, everything else is named by its kind. A message therefore never
 * repeats long input, control characters, or marks that change the direction of a line.
 */
export function inWords(value: unknown): string {
  switch (typeof value) {
    case "string":
      return value.length <= SHOWN_CHARS && isPrintable(value) ? JSON.stringify(value) : `a string of ${characters(value)}`;
    case "object":
      if (value === null) return "null";
      return Array.isArray(value) ? "an array" : "an object";
    case "number":
    case "boolean":
    case "undefined":
      return String(value);
    default:
      return `a ${typeof value}`;
  }
}

function characters(text: string): string {
  const count = [...text].length;
  return `${count} character${count === 1 ? "" : "s"}`;
}

/** True if a person sees all of a text as it is: it has no control, format or unassigned characters, and no line ends. */
export function isPrintable(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]*$/u.test(text);
}

/** Characters that control a terminal or change the order of the text: controls, bidirectional marks, line and paragraph separators. */
export const UNSEEN = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

/**
 * Untrusted text as a part of a line. Characters that control a terminal are written as `\u001b`, because they could move the cursor, overwrite text, change
 * the title, fill the clipboard or reorder the text. Line ends are escaped too, because they could forge a line of this program.
 */
export function untrusted(text: string): string {
  return text.replaceAll(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Untrusted text as a separate block: as {@link untrusted}, but line ends and tabs stay. JSON stays the same JSON. */
export function printable(text: string): string {
  const parts = text.split(/(\r?\n|\t)/);
  return parts.map((part, i) => (i % 2 === 0 ? untrusted(part) : part)).join("");
}

/** Escapes text for HTML content and attributes. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
