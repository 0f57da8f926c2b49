import { createInterface } from "node:readline/promises";
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

/** Asks on the terminal. Ctrl-C and Ctrl-D end it with CliError; nothing was changed by then that was not said. */
export async function prompting<T>(dialogue: (prompt: Prompt) => Promise<T>): Promise<T> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const gone = Promise.withResolvers<never>();
  gone.promise.catch(() => {});
  const leave = () => gone.reject(new CliError(EXIT.usage, "\nnothing was changed"));
  lines.once("close", leave);
  const ask = async (question: string, usual: string): Promise<string> => {
    const answer = await Promise.race([lines.question(`${question}${usual === "" ? "" : ` [${usual}]`}: `), gone.promise]);
    return answer.trim() === "" ? usual : answer.trim();
  };
  const confirm = async (question: string, usual: boolean): Promise<boolean> => {
    for (;;) {
      const answer = await Promise.race([lines.question(`${question} [${usual ? "Y/n" : "y/N"}]: `), gone.promise]);
      if (answer.trim() === "") return usual;
      if (/^y(es)?$/i.test(answer.trim())) return true;
      if (/^no?$/i.test(answer.trim())) return false;
    }
  };
  try {
    return await dialogue({ ask, confirm });
  } finally {
    lines.off("close", leave);
    lines.close();
  }
}
