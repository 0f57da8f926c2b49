import { createInterface } from "node:readline";
import { untrusted } from "../worker/node/printable.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Questions to a person at a terminal. */
export type Prompt = {
  /** The answer, or `usual` for an empty line. */
  ask: (question: string, usual: string) => Promise<string>;
  /** Yes or no. */
  confirm: (question: string, usual: boolean) => Promise<boolean>;
};

/** Whether there is a person to ask. */
export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY;
}

/** Asks on the terminal. Ctrl-C and Ctrl-D end it with CliError. What is typed ahead of a question answers it. */
export async function withPrompt<T>(dialogue: (prompt: Prompt) => Promise<T>): Promise<T> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const ahead: string[] = [];
  const keep = (line: string): void => void ahead.push(line);
  let take = keep;
  let leave = (): void => {};
  const left = new Promise<never>((_, reject) => (leave = () => reject(new CliError(EXIT.usage, "\nnothing was changed"))));
  left.catch(() => {});
  lines.on("line", (line) => take(line)).once("close", leave);

  const answer = async (question: string): Promise<string> => {
    lines.setPrompt(question);
    lines.prompt();
    const typed = ahead.shift();
    if (typed !== undefined) return typed.trim();
    const next = new Promise<string>((resolve) => {
      take = (line) => {
        // At once: the lines of a paste come in one turn.
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
    return await dialogue({ ask, confirm });
  } finally {
    lines.off("close", leave);
    lines.close();
  }
}
