import { readFile } from "node:fs/promises";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { standardInput } from "./standard-input.ts";

/** Reads a JSON file; `-` is standard input. Throws CliError. */
export async function readJsonFile(file: string): Promise<unknown> {
  const text = file === "-" ? await standardInput("pipe the JSON in, or give a file") : await readText(file);
  const name = file === "-" ? "standard input" : file;
  if (text.trim() === "") throw new CliError(EXIT.usage, `${name} is empty`);
  try {
    // A byte order mark is not JSON, but some editors write one.
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    throw new CliError(EXIT.usage, `${name} is not JSON`);
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read ${file}: ${error instanceof Error ? error.message : "unknown error"}`, { cause: error });
  }
}
