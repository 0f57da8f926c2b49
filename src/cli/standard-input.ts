import { text } from "node:stream/consumers";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** All of standard input as text. `how` tells a person at a terminal what to do instead of waiting for them. */
export async function standardInput(how: string): Promise<string> {
  if (process.stdin.isTTY) throw new CliError(EXIT.usage, `nothing to read: ${how}`);
  return text(process.stdin);
}
