// Checks of options and arguments, shared by every call: each gives the value or throws InvalidOptionError, before anything is sent.
import { inWords, isJsonObject } from "../protocol/text.ts";
import { InvalidOptionError } from "./errors.ts";
import { MAX_DELAY } from "./retry.ts";

/** The names of the options of a type, in order. The compiler refuses a list that lacks one. */
export function optionNames<T>(names: Record<keyof T, 0>): readonly string[] {
  return Object.keys(names);
}

/** The error of an option that is something else than it must be; it says what it is, so never for a secret. */
export function wrong(option: string, rule: string, value: unknown): InvalidOptionError {
  return new InvalidOptionError(option, `${rule}, got ${inWords(value)}`);
}

/**
 * The options, null among them counting as left out. Refuses names that nobody reads: a misspelt one would silently do nothing.
 * @returns undefined where there are no options
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

/** `value` if it is one of `choices`, or undefined. */
export function checkChoice<T extends string>(option: string, value: unknown, choices: readonly T[]): T | undefined {
  if (value === undefined) return undefined;
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw wrong(option, `must be one of ${choices.join(", ")}`, value);
  return found;
}

/** A whole number of milliseconds or of anything else, within bounds, or undefined. */
export function checkInteger(option: string, value: unknown, min: number, max: number = MAX_DELAY): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw wrong(option, `must be a whole number from ${min} to ${max}`, value);
}

/** Text that can stand in an HTTP header: visible ASCII, at most `max` characters. Most are secrets, so no error repeats one. */
export function checkHeaderText(option: string, value: unknown, max: number): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "string" && value.length <= max && /^[\x21-\x7e]+$/.test(value)) return value;
  const rule = `must have 1 to ${max} characters, all of them visible ASCII`;
  throw typeof value === "string" ? new InvalidOptionError(option, rule) : wrong(option, rule, value);
}

/** Whether `value` is there; throws if it is and is no function. */
export function checkFunction(option: string, value: unknown): boolean {
  if (value !== undefined && typeof value !== "function") throw wrong(option, "must be a function", value);
  return value !== undefined;
}

/** A boolean or undefined. */
export function checkBoolean(option: string, value: unknown): boolean | undefined {
  if (value !== undefined && typeof value !== "boolean") throw wrong(option, "must be true or false", value);
  return value;
}

/** An absolute http or https URL as a prefix for paths: without a last slash, credentials, query or fragment. */
export function checkBaseUrl(option: string, value: unknown): string {
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw wrong(option, "must be an absolute http or https URL", value);
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new InvalidOptionError(option, "must not have credentials, a query or a fragment");
  }
  return url.href.replace(/\/+$/, "");
}

/** Variable `name` of the process, if there is a process and it lets us look (Deno asks for permission). Empty counts as unset. */
export function environmentVariable(name: string): string | undefined {
  try {
    const process: unknown = Reflect.get(globalThis, "process");
    const value = isJsonObject(process) && isJsonObject(process.env) ? process.env[name] : undefined;
    return typeof value === "string" && value !== "" ? value : undefined;
  } catch {
    return undefined;
  }
}
