// Turns a failed zod parse into a sentence for the sender. It serves the first step of a job's way (commit) and every frame of a worker.
import type * as z from "zod";
import { inWords } from "./text.ts";

/** One message names at most this many problems. */
const MOST = 3;

const TYPES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "an array",
};

/**
 * Describes the first few problems of a failed parse: which field is wrong, what it must be, and what it was if that is short and printable. A schema
 * can describe its own rule with a message that begins with "must".
 *
 * @param error the problems that zod found
 * @param value the value that was parsed
 * @returns one sentence per problem, joined by semicolons
 */
export function describeIssues(error: z.ZodError | undefined, value: unknown): string {
  const sentences = new Map<string, string>();
  for (const issue of error?.issues ?? []) {
    // A stranger may cause thousands.
    if (sentences.size === MOST) break;
    const field = fieldName(issue.path);
    // Later problems of the same field are usually consequences of its first one.
    if (!sentences.has(field)) sentences.set(field, `${field} ${predicate(issue, valueAt(value, issue.path))}`);
  }
  return [...sentences.values()].join("; ");
}

const EMPTY = "must not be empty";

/** The sentence about one field without its name; `got` is its value. */
function predicate(issue: z.core.$ZodIssue, got: unknown): string {
  const rule = ruleOf(issue);
  if (got === undefined) return `is missing: it ${rule}`;
  return got === "" || rule === EMPTY || isUnshown(got) ? rule : `${rule}, got ${inWords(got)}`;
}

/** True for a short text that cannot be printed. Its length would not help the sender either. */
function isUnshown(got: unknown): boolean {
  return typeof got === "string" && got.length <= 32 && !inWords(got).startsWith('"');
}

/** The rule that a field breaks, as `must be true or false`. It never repeats the value. */
export function ruleOf(issue: z.core.$ZodIssue): string {
  if (issue.message.startsWith("must ")) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return `must be ${TYPES[issue.expected] ?? "of the documented type"}`;
    case "invalid_value":
      return oneOf(issue.values);
    case "invalid_union":
      return oneOf("options" in issue && Array.isArray(issue.options) ? issue.options : []);
    case "too_small":
      return bound(issue.origin, "at least", Number(issue.minimum));
    case "too_big":
      return bound(issue.origin, "at most", Number(issue.maximum));
    default:
      return "must have the documented form";
  }
}

function oneOf(values: readonly unknown[]): string {
  return values.length === 0 ? "must have a documented value" : `must be ${values.length === 1 ? "" : "one of "}${values.join(", ")}`;
}

function bound(origin: string, which: "at least" | "at most", limit: number): string {
  if (origin === "string" || origin === "array") {
    if (which === "at least" && limit === 1) return EMPTY;
    return `must have ${which} ${limit} ${origin === "string" ? "characters" : "entries"}`;
  }
  return `must be ${which} ${limit}`;
}

/** A path as text: `payload.messages[0].content`. An empty path is the whole body. */
function fieldName(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "body";
  return path.map((part, at) => (typeof part === "number" ? `[${part}]` : `${at === 0 ? "" : "."}${String(part)}`)).join("");
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let at = value;
  for (const part of path) at = typeof at === "object" && at !== null && Object.hasOwn(at, part) ? Reflect.get(at, part) : undefined;
  return at;
}
