// Checks of options and arguments, shared by every call. Each check returns the value or throws InvalidOptionError, before the SDK sends anything.
import { isJsonObject } from "../protocol/json.ts";
import { inWords } from "../protocol/text.ts";
import { InvalidOptionError } from "./errors.ts";
import { MAX_DELAY } from "./retry.ts";

/** The names of the options of a type, in order. The compiler rejects an incomplete list. */
export function optionNames<T>(names: Record<keyof T, 0>): readonly string[] {
  return Object.keys(names);
}

/** The error for a wrong value. It repeats the value, so do not use it for a secret. */
export function wrong(option: string, rule: string, value: unknown): InvalidOptionError {
  return new InvalidOptionError(option, `${rule}, got ${inWords(value)}`);
}

/**
 * Checks the names of options. An unknown name is an error, because a misspelt option would silently do nothing. An option that is null counts as left out.
 *
 * @returns the options without those that are null; undefined if `options` itself is null or undefined
 */
export function checkNames<T extends object>(what: string, options: T | null | undefined, names: readonly string[]): T | undefined {
  if (options === undefined || options === null) return undefined;
  if (!isJsonObject(options)) throw wrong(what, "must be an object", options);
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw new InvalidOptionError(name, `is not one of the ${what} (${names.join(", ")})`);
  }
  const given = { ...options };
  for (const [name, value] of Object.entries(given)) if (value === null) Reflect.deleteProperty(given, name);
  return given;
}

/** Returns `value` if it is one of `choices` or undefined. */
export function checkChoice<T extends string>(option: string, value: unknown, choices: readonly T[]): T | undefined {
  if (value === undefined) return undefined;
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw wrong(option, `must be one of ${choices.join(", ")}`, value);
  return found;
}

/** Returns `value` if it is undefined or a whole number within bounds (by default the delays that a timer can take). */
export function checkInteger(option: string, value: unknown, min: number, max: number = MAX_DELAY): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw wrong(option, `must be a whole number from ${min} to ${max}`, value);
}

/** Returns `value` if it is undefined or a number within bounds. */
export function checkNumber(option: string, value: unknown, min: number, max: number): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && value >= min && value <= max) return value;
  throw wrong(option, `must be a number from ${min} to ${max}`, value);
}

/** Returns a text that an HTTP header can carry: visible ASCII, at most `max` characters. Most are secrets, so the error does not repeat it. */
export function checkHeaderText(option: string, value: unknown, max: number): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "string" && value.length <= max && /^[\x21-\x7e]+$/.test(value)) return value;
  const rule = `must have 1 to ${max} characters, all of them visible ASCII`;
  throw typeof value === "string" ? new InvalidOptionError(option, rule) : wrong(option, rule, value);
}

/** Returns `value` if it is a function or undefined. */
export function checkFunction<T>(option: string, value: T): T {
  if (value !== undefined && typeof value !== "function") throw wrong(option, "must be a function", value);
  return value;
}

/** Returns `value` if it is a boolean or undefined. */
export function checkBoolean(option: string, value: unknown): boolean | undefined {
  if (value !== undefined && typeof value !== "boolean") throw wrong(option, "must be true or false", value);
  return value;
}

/** Returns an absolute http or https URL as a prefix for paths: without a final slash. Credentials, a query and a fragment are errors. */
export function checkBaseUrl(option: string, value: unknown): string {
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const rule = "must be an absolute http or https URL";
    // `user:password@host` is no such URL either, and an error does not repeat a secret.
    throw typeof value === "string" && value.includes("@") ? new InvalidOptionError(option, rule) : wrong(option, rule, value);
  }
  // An empty query or fragment is in `href` only.
  if (url.username !== "" || url.password !== "" || /[?#]/.test(url.href)) {
    throw new InvalidOptionError(option, "must not have credentials, a query or a fragment");
  }
  return url.href.replace(/\/+$/, "");
}

/** Reads an environment variable; undefined if there is no process or it denies access (Deno asks for permission). An empty variable counts as unset. */
export function environmentVariable(name: string): string | undefined {
  try {
    const process: unknown = Reflect.get(globalThis, "process");
    const value = isJsonObject(process) && isJsonObject(process.env) ? process.env[name] : undefined;
    return typeof value === "string" && value !== "" ? value : undefined;
  } catch {
    return undefined;
  }
}
