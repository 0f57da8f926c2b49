import { isJsonObject } from "../protocol/text.ts";
import { InvalidOptionError } from "./errors.ts";
import { MAX_DELAY } from "./limit.ts";

/** The options as an object without names that nobody reads: a misspelt one would silently do nothing. */
export function checkNames(what: string, options: unknown, names: readonly string[]): Record<string, unknown> {
  if (options === undefined) return {};
  if (!isJsonObject(options)) throw new InvalidOptionError(what, "must be an object");
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw new InvalidOptionError(name, `is not one of the ${what} (${names.join(", ")})`);
  }
  return options;
}

/** `value` if it is one of `choices`, or undefined. */
export function checkChoice<T extends string>(option: string, value: unknown, choices: readonly T[]): T | undefined {
  if (value === undefined) return undefined;
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw new InvalidOptionError(option, `must be one of ${choices.join(", ")}`);
  return found;
}

/** A whole number of milliseconds or of anything else, within bounds, or undefined. */
export function checkInteger(option: string, value: unknown, min: number, max: number = MAX_DELAY): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw new InvalidOptionError(option, `must be an integer from ${min} to ${max}`);
}

/** Text that can stand in an HTTP header: visible ASCII, at most `max` characters. */
export function checkHeaderText(option: string, value: unknown, max: number): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "string" && value.length <= max && /^[\x21-\x7e]+$/.test(value)) return value;
  throw new InvalidOptionError(option, `must be 1 to ${max} visible ASCII characters`);
}

/** Whether `value` is there; throws if it is and is no function. */
export function checkFunction(option: string, value: unknown): boolean {
  if (value !== undefined && typeof value !== "function") throw new InvalidOptionError(option, "must be a function");
  return value !== undefined;
}

/** A boolean or undefined. */
export function checkBoolean(option: string, value: unknown): boolean | undefined {
  if (value !== undefined && typeof value !== "boolean") throw new InvalidOptionError(option, "must be true or false");
  return value;
}

/** An absolute http or https URL as a prefix for paths: without a last slash, credentials, query or fragment. */
export function checkBaseUrl(option: string, value: unknown): string {
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidOptionError(option, "must be an absolute http or https URL");
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new InvalidOptionError(option, "must not have credentials, a query or a fragment");
  }
  return url.href.replace(/\/+$/, "");
}
