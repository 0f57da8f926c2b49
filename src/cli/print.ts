import { printable } from "../worker/node/status-line.ts";

// Own text is printed as it is, colors included. Text of others (a coordinator, a worker, a file, the environment) becomes part of a line by
// `untrusted`, is printed whole by `printUntrusted`, or goes into an error, which has no colors of ours.

/** Where a command prints: a terminal, a pipe. */
export type Out = { readonly isTTY?: boolean; write(text: string): unknown };

/** Prints a line, or several, of our own. */
export function print(text: string, out: Out = process.stdout): void {
  out.write(`${text}\n`);
}

/** Prints text of others, which a program may read: a pipe gets it as it is, a terminal nothing that it would obey. */
export function printUntrusted(text: string, out: Out = process.stdout): void {
  out.write(out.isTTY === true ? printable(text) : text);
}

/** Prints a value as one line of JSON; on a terminal it is still JSON, with nothing in it that a terminal obeys. */
export function printJson(value: unknown, out: Out = process.stdout): void {
  printUntrusted(`${JSON.stringify(value)}\n`, out);
}

/** Prints a message on standard error. It has no colors, and much of it may be text of others. */
export function printError(text: string, out: Out = process.stderr): void {
  out.write(`${printable(text)}\n`);
}
