import { readFileSync } from "node:fs";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Reads a JSON file; `-` is standard input. */
export function readJsonFile(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read ${file}: ${error instanceof Error ? error.message : "unknown error"}`);
  }
  try {
    // A byte order mark is no JSON, but some editors write one.
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    throw new CliError(EXIT.usage, `${file} is not JSON`);
  }
}
