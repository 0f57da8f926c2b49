// JSON and text at the border: measure, scan, parse and compare untrusted text, and cut members out of JSON without changing them. It also has the one type
// of a result that can fail. Every step of a job's way uses it, and at run time it imports the limits only.
import type * as z from "zod";
import { LIMITS } from "./limits.ts";

/** The result of a function with expected failures: a value, or a reason. Only bugs throw. */
export type Result<T, E> = { ok: true; value: T } | { ok: false; reason: E };

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

/**
 * True if JSON `text` nests at most `limit` levels deep. It scans the text before any recursive code sees it: `JSON.parse` survives a depth of a million,
 * but code that walks the value does not.
 */
export function isShallowJson(text: string, limit: number = LIMITS.jsonDepth): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0x22 /* " */) i = stringEnd(text, i) - 1;
    else if (unit === 0x7b /* { */ || unit === 0x5b /* [ */) {
      if (++depth > limit) return false;
    } else if (unit === 0x7d /* } */ || unit === 0x5d /* ] */) depth--;
  }
  return true;
}

/** True if every string and member name of a parsed JSON value is well-formed Unicode (has no lone surrogate). */
export function isWellFormedJson(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (Array.isArray(value)) return value.every(isWellFormedJson);
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).every(([name, member]) => name.isWellFormed() && isWellFormedJson(member));
  }
  return true;
}

/** True if `value` is a JSON object (not null, not an array). */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses JSON text that nests at most `limit` levels deep [LM1]. */
export function readJson(text: string, limit: number = LIMITS.jsonDepth): Result<unknown, "invalid_json" | "too_deep"> {
  if (!isShallowJson(text, limit)) return { ok: false, reason: "too_deep" };
  const value = parseJson(text);
  return value === undefined ? { ok: false, reason: "invalid_json" } : { ok: true, value };
}

/** Reads JSON text by a schema; null if it is absent or not of this form. */
export function readAs<T>(schema: z.ZodType<T>, text: string | null): T | null {
  const json = text === null ? null : readJson(text);
  return (json?.ok === true ? schema.safeParse(json.value).data : undefined) ?? null;
}

/** Parses JSON text of any depth; undefined for text that is not JSON. Use {@link readJson} for text of a stranger. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The part of a `ReadableStream` of bytes that a reader of a whole body needs. Browsers, Node and Workers have it under types of their own. */
type ByteStream = { getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<unknown> } };

/**
 * Reads a body to its end; null if it is longer than `limit` bytes. Of a longer one it reads and drops up to `dropped` bytes more. The bytes are counted as they
 * arrive, because a Content-Length may be missing or wrong. @throws what the stream throws
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
const UNSEEN = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

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

/** Where a member stands in the text of an object. */
type MemberPlace = {
  name: string;
  /** Index of the opening quote of the name. */
  start: number;
  valueStart: number;
  /** Just after the value. */
  end: number;
};

/**
 * The text of one member of a JSON object, exactly as it was written. Parsing and serializing again would change numbers, escapes, white space, member order
 * and repeated names. If the name occurs twice, the last one counts, as in `JSON.parse`.
 *
 * @param json valid JSON text of an object
 * @returns null if there is no such member
 */
export function rawJsonMember(json: string, name: string): string | null {
  const last = membersOf(json).findLast((member) => member.name === name);
  return last === undefined ? null : json.slice(last.valueStart, last.end);
}

/**
 * Puts a member first in a JSON object and removes others of the same name. The texts of all other members stay as they were written. A second member of
 * that name would be ambiguous: some parsers take the first, others the last.
 *
 * @param json valid JSON text of an object
 */
export function withFirstMember(json: string, name: string, value: string): string {
  const first = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  const members = membersOf(json);
  const others = members.filter((member) => member.name !== name);
  // The usual case: nothing to remove, so even the white space stays.
  if (others.length === members.length && members.length > 0) return `{${first},${json.slice(json.indexOf("{") + 1)}`;
  return `{${[first, ...others.map(({ start, end }) => json.slice(start, end))].join(",")}}`;
}

function membersOf(json: string): MemberPlace[] {
  const members: MemberPlace[] = [];
  let at = skipSpace(json, json.indexOf("{") + 1);
  while (json[at] === '"') {
    const start = at;
    const nameEnd = stringEnd(json, start);
    const valueStart = skipSpace(json, json.indexOf(":", nameEnd) + 1);
    const end = valueEnd(json, valueStart);
    members.push({ name: JSON.parse(json.slice(start, nameEnd)), start, valueStart, end });
    at = skipSpace(json, end);
    if (json[at] === ",") at = skipSpace(json, at + 1);
  }
  return members;
}

function skipSpace(json: string, from: number): number {
  let at = from;
  while (at < json.length && json.charCodeAt(at) <= 0x20) at++;
  return at;
}

/** Just after the string whose opening quote is at `from`. */
function stringEnd(json: string, from: number): number {
  // The platform searches a long string many times faster than a loop.
  for (let at = json.indexOf('"', from + 1); at !== -1; at = json.indexOf('"', at + 1)) {
    let escapes = 0;
    while (json.charCodeAt(at - 1 - escapes) === 0x5c /* \ */) escapes++;
    if (escapes % 2 === 0) return at + 1;
  }
  return json.length;
}

/** Just after the value that begins at `from`. */
function valueEnd(json: string, from: number): number {
  let depth = 0;
  for (let at = from; at < json.length; at++) {
    const char = json[at];
    if (char === '"') {
      at = stringEnd(json, at) - 1;
      if (depth === 0) return at + 1;
    } else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") {
      // The end of the object around a number or a word.
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (char === "," || json.charCodeAt(at) <= 0x20)) return at;
  }
  return json.length;
}

/** Escapes text for HTML content and attributes. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
