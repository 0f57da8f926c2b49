import { printable } from "../worker/node/printable.ts";

/** Where a command prints: a terminal, a pipe. */
export type Out = { readonly isTTY?: boolean; write(text: string): unknown };

/** Writes text of others. A pipe gets it as it is, a terminal nothing that it would obey. */
export function printForeign(text: string, out: Out): void {
  out.write(out.isTTY === true ? printable(text) : text);
}

/** Writes one line, or many, for a person or a pipe; much of what a command prints was written by strangers. */
export function print(text: string, out: Out = process.stdout): void {
  printForeign(`${text}\n`, out);
}

/** Writes a line about the work, beside its output. */
export function remark(text: string): void {
  print(text, process.stderr);
}
