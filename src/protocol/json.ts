// JSON at the border: scan untrusted JSON before anything recursive reads it, parse it, and cut members out of it without changing them. Every step of a job's
// way uses it.
import type * as z from "zod";
import { LIMITS } from "./limits.ts";
import type { Result } from "./result.ts";

/** How large JSON may be besides its bytes: how deep it nests, and how many values it has, those inside others too. */
type JsonBounds = { depth?: number; values?: number };

/**
 * Why JSON `text` must not be parsed; null if it may be. It scans the text before any recursive code sees it: `JSON.parse` survives a depth of a million, but
 * code that walks the value does not. And a text of many small values costs a hundred times as much as one long string.
 */
function oversize(text: string, { depth: deepest = LIMITS.jsonDepth, values: most = Infinity }: JsonBounds): "too_deep" | "too_many_values" | null {
  let depth = 0;
  let values = 1;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0x22 /* " */) i = stringEnd(text, i) - 1;
    else if (unit === 0x2c /* , */) values++;
    else if (unit === 0x7b /* { */ || unit === 0x5b /* [ */) {
      values++;
      if (++depth > deepest) return "too_deep";
    } else if (unit === 0x7d /* } */ || unit === 0x5d /* ] */) depth--;
  }
  return values > most ? "too_many_values" : null;
}

/** True if JSON `text` nests at most `limit` levels deep. */
export function isShallowJson(text: string, limit: number = LIMITS.jsonDepth): boolean {
  return oversize(text, { depth: limit }) === null;
}

/** True if every string and member name of a parsed JSON value is well-formed Unicode (has no lone surrogate). */
export function isWellFormedJson(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (Array.isArray(value)) return value.every(isWellFormedJson);
  if (!isJsonObject(value)) return true;
  return Object.keys(value).every((name) => name.isWellFormed() && isWellFormedJson(value[name]));
}

/** True if `value` is a JSON object (not null, not an array). */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses JSON text within these bounds [LM1]: {@link LIMITS.jsonDepth} levels, if nothing else is said, and any number of values. */
export function readJson(text: string, bounds: JsonBounds = {}): Result<unknown, "invalid_json" | "too_deep" | "too_many_values"> {
  const reason = oversize(text, bounds);
  if (reason !== null) return { ok: false, reason };
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
