// What the commands read: JSON files, standard input, and from a person at a terminal the answers and Ctrl-C.
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { buffer } from "node:stream/consumers";
import { parseJson } from "../protocol/json.ts";
import { untrusted } from "../protocol/text.ts";
import { CliError, EXIT } from "./command.ts";
import { SAME_KEYPRESS_MS } from "./same-keypress.ts";

/**
 * Reads a JSON file; `-` is standard input. What is not JSON goes to `other`, which returns undefined if it cannot read it either.
 * @throws {CliError} if the file cannot be read or is no JSON
 */
export async function readJsonFile(file: string, other: (text: string) => unknown = () => undefined): Promise<unknown> {
  const text = file === "-" ? await pipedInput("pipe the JSON in, or give a file") : await readText(file);
  const name = nameOf(file);
  if (text.trim() === "") throw new CliError(EXIT.usage, `${name} is empty`);
  const json = parseJson(text);
  const value = json === undefined ? other(text) : json;
  if (value === undefined) throw new CliError(EXIT.usage, `${name} is not JSON`);
  return value;
}

/** What messages call a file. */
export function nameOf(file: string): string {
  return file === "-" ? "standard input" : file;
}

async function readText(file: string): Promise<string> {
  const bytes = await readFile(file).catch((error: unknown) => {
    throw new CliError(EXIT.usage, `cannot read ${file}: ${error instanceof Error ? error.message : "unknown error"}`, { cause: error });
  });
  return decoded(bytes, nameOf(file));
}

/** All of standard input as text. It never waits for a person: without input it throws CliError with `how`, which tells what to do. */
export async function standardInput(how: string): Promise<string> {
  const given = await pipedInput(how);
  if (given === "") throw new CliError(EXIT.usage, `nothing to read: ${how}`);
  return given;
}

async function pipedInput(how: string): Promise<string> {
  if (process.stdin.isTTY) throw new CliError(EXIT.usage, `nothing to read: ${how}`);
  return decoded(await buffer(process.stdin), nameOf("-"));
}

/** The text of UTF-8, without a byte order mark, which some editors write. */
function decoded(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    // With replacement characters in it, it would be another text.
    throw new CliError(EXIT.usage, `${name} is not UTF-8: save the text as UTF-8 first`, { cause: error });
  }
}

/** Questions to a person at a terminal. */
export type Prompt = {
  /** The answer, or `usual` for an empty line. */
  ask: (question: string, usual: string) => Promise<string>;
  /** Yes or no. */
  confirm: (question: string, usual: boolean) => Promise<boolean>;
};

/** True if a person can answer questions. */
export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY;
}

/**
 * Runs a dialogue on the terminal. Ctrl-C ends it with CliError, and so does Ctrl-D, as a usage error. A line that was typed before its question answers it.
 */
export async function withPrompt<T>(dialogue: (prompt: Prompt) => Promise<T>): Promise<T> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const ahead: string[] = [];
  const keep = (line: string): void => void ahead.push(line);
  let take = keep;
  let leave = (_exit: CliError["exit"]): void => {};
  const left = new Promise<never>((_, reject) => (leave = (exit) => reject(new CliError(exit, "\nnothing was changed"))));
  left.catch(() => {});
  const onClose = (): void => leave(EXIT.usage);
  lines
    .on("line", (line) => take(line))
    .once("SIGINT", () => leave(EXIT.interrupted))
    .once("close", onClose);

  const answer = async (question: string): Promise<string> => {
    lines.setPrompt(question);
    lines.prompt();
    const typed = ahead.shift();
    if (typed !== undefined) return typed.trim();
    const next = new Promise<string>((resolve) => {
      take = (line) => {
        // Reset at once, because pasted lines arrive together.
        take = keep;
        resolve(line);
      };
    });
    return (await Promise.race([next, left])).trim();
  };
  const ask: Prompt["ask"] = async (question, usual) => (await answer(`${question}${usual === "" ? "" : ` [${untrusted(usual)}]`}: `)) || usual;
  const confirm: Prompt["confirm"] = async (question, usual) => {
    for (;;) {
      const said = await answer(`${question} [${usual ? "Y/n" : "y/N"}]: `);
      if (said === "") return usual;
      if (/^y(es)?$/i.test(said)) return true;
      if (/^no?$/i.test(said)) return false;
    }
  };
  try {
    // Also between two questions, while something is looked for.
    return await Promise.race([dialogue({ ask, confirm }), left]);
  } finally {
    lines.off("close", onClose);
    lines.close();
  }
}

/** Calls `listener` at the first Ctrl-C. A later one ends the program immediately. Returns a function that ends the wait. */
export function onCtrlC(listener: () => void): () => void {
  return onSignals(["SIGINT"], listener);
}

/** Calls `listener` at the first of these signals. A later one ends the program immediately. Returns a function that ends the wait. */
export function onSignals(signals: readonly NodeJS.Signals[], listener: () => void): () => void {
  let heard = false;
  const off = () => {
    for (const signal of signals) process.off(signal, onSignal);
  };
  const onSignal = () => {
    if (heard) return;
    heard = true;
    setTimeout(off, SAME_KEYPRESS_MS).unref();
    listener();
  };
  for (const signal of signals) process.on(signal, onSignal);
  return () => {
    if (!heard) off();
  };
}
