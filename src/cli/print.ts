import { printable } from "../worker/node/printable.ts";

/** Where a command prints: a terminal, a pipe. */
type Out = { readonly isTTY?: boolean; write(text: string): unknown };

/** Writes one line, or many. A pipe gets the text as it is, a terminal nothing that it would obey: much of it was written by strangers. */
export function print(text: string, out: Out = process.stdout): void {
  out.write(`${out.isTTY === true ? printable(text) : text}\n`);
}

/** Writes a line about the work, beside its output. */
export function remark(text: string, out: Out = process.stderr): void {
  print(text, out);
}
