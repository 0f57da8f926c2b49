// What the commands print. Text of this program is printed unchanged, with its colors. Untrusted text (of a coordinator, a worker, a file, the environment) is
// escaped: by `untrusted` as a part of a line, by `printUntrusted` as a block, and by `printError` in an error, which has no colors.
import { printable } from "../worker/node/status-line.ts";

/** The output of a command: a terminal or a pipe. */
export type Out = { readonly isTTY?: boolean; write(text: string): unknown };

/** Prints one or more lines of this program. */
export function print(text: string, out: Out = process.stdout): void {
  out.write(`${text}\n`);
}

/** Prints untrusted text. A pipe gets it unchanged, because a program may read it; for a terminal it is escaped. */
export function printUntrusted(text: string, out: Out = process.stdout): void {
  out.write(out.isTTY === true ? printable(text) : text);
}

/** Prints a value as one line of JSON. For a terminal its text is escaped, and it is still JSON. */
export function printJson(value: unknown, out: Out = process.stdout): void {
  printUntrusted(`${JSON.stringify(value)}\n`, out);
}

/** Prints a message on standard error. It is escaped, because much of it may be untrusted text. */
export function printError(text: string, out: Out = process.stderr): void {
  out.write(`${printable(text)}\n`);
}
