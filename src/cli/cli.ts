// The command line `compute-router`: finds the command, prints help, and turns errors into one line and an exit code.
import { stripVTControlCharacters } from "node:util";
import { type ArgsDef, type CommandDef, defineCommand, renderUsage, runCommand } from "citty";
import { fitted, terminalColumns } from "../worker/node/fitted.ts";
import { ownCommand, packageVersion, shellWord } from "../worker/node/program.ts";
import { CliError, EXIT, EXIT_HELP, print, printError } from "./command.ts";

/** `job cancel` in one word. */
const JOB_CANCEL = "job-cancel";

const main = defineCommand({
  meta: { name: "compute-router", version: packageVersion(), description: "Work for a compute router, give it jobs, check its receipts" },
  subCommands: {
    worker: async () => (await import("./commands/worker.ts")).worker,
    verify: async () => (await import("./commands/verify.ts")).verify,
    run: async () => (await import("./commands/jobs.ts")).run,
    task: async () => (await import("./commands/jobs.ts")).task,
    quote: async () => (await import("./commands/jobs.ts")).quote,
    job: async () => (await import("./commands/jobs.ts")).job,
    // `job` takes an id, so `job cancel` cannot be a command below it. The help of `job` names it.
    [JOB_CANCEL]: async () => (await import("./commands/jobs.ts")).cancel,
    jobs: async () => (await import("./commands/jobs.ts")).jobs,
    models: async () => (await import("./commands/jobs.ts")).models,
    mcp: async () => (await import("./commands/mcp.ts")).mcp,
    pair: async () => (await import("./commands/pair.ts")).pair,
    user: async () => (await import("./commands/pair.ts")).user,
    stake: async () => (await import("./commands/stake.ts")).stake,
    payments: async () => (await import("./commands/payments.ts")).payments,
  },
});

/** Runs one command line and sets the exit code of the process. */
export async function runCli(given: string[]): Promise<void> {
  const words = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  const rawArgs = words[0] === "job" && words[1] === "cancel" ? [JOB_CANCEL, ...words.slice(2)] : words;
  const options = rawArgs.includes("--") ? rawArgs.slice(0, rawArgs.indexOf("--")) : rawArgs;
  const asksVersion = rawArgs.length === 1 && (rawArgs[0] === "--version" || rawArgs[0] === "-v");
  const asksHelp = rawArgs.length === 0 || options.some((arg) => arg === "--help" || arg === "-h");
  try {
    if (asksVersion) return print(packageVersion());
    await refuseUnread(rawArgs, asksHelp);
    // Not by citty's `runMain`, which ends the process: what a slow pipe has not read yet could be lost.
    if (asksHelp) return await showUsage((await commandIn(options)).found);
    await runCommand(main, { rawArgs });
  } catch (error) {
    process.exitCode = report(error, (await commandIn(rawArgs)).command, rawArgs);
  }
}

/** Refuses what citty would not read: a wrong command before --help, and options before the command. @throws CliError */
async function refuseUnread(rawArgs: readonly string[], asks: boolean): Promise<void> {
  const first = rawArgs.findIndex((arg) => arg.startsWith("-"));
  const words = first === -1 ? rawArgs : rawArgs.slice(0, first);
  if (!asks && first === 0) {
    const name = rawArgs.find((arg) => Object.hasOwn(main.subCommands ?? {}, arg));
    throw new CliError(EXIT.usage, `put options after the command${name === undefined ? `; see: ${ownCommand("--help")}` : `: ${ownCommand(name)} …`}`);
  }
  const { command, isGroup } = await commandIn(words);
  const unknown = words[command.length];
  // A command that has commands takes no other words.
  if (asks && isGroup && unknown !== undefined)
    throw new CliError(EXIT.usage, `unknown command ${unknown}; see: ${ownCommand([...command, "--help"].join(" "))}`);
}

/** Prints the help of a command, under the name that works here. The names are complete, so citty must not add that of the parent. */
async function showUsage<T extends ArgsDef>(asked: CommandDef<T>): Promise<void> {
  const meta = typeof asked.meta === "function" ? await asked.meta() : await asked.meta;
  const words = (meta?.name ?? "").split(" ").slice(1);
  // This text is part of the program and may have colors, so it is not escaped.
  const usage = await renderUsage({ ...asked, meta: { ...meta, name: ownCommand(words.join(" ")).trimEnd() } });
  const text = Object.is(asked, main) ? `${usage.trimEnd()}\n\n${EXIT_HELP}` : usage.trimEnd();
  const columns = terminalColumns();
  process.stdout.write(
    `${text
      .split("\n")
      .flatMap((line) => fitted(line, columns))
      .join("\n")}\n`,
  );
}

/** The words of a command line that name a command, for example `worker key`, and that command; `isGroup` if it has commands itself. */
async function commandIn(rawArgs: readonly string[]): Promise<{ command: string[]; found: CommandDef; isGroup: boolean }> {
  const command: string[] = [];
  let at: CommandDef = main;
  for (const word of rawArgs.filter((arg) => !arg.startsWith("-"))) {
    const subCommands: unknown = at.subCommands;
    if (typeof subCommands !== "object" || subCommands === null || !Object.hasOwn(subCommands, word)) break;
    const next: unknown = Reflect.get(subCommands, word);
    const found: unknown = typeof next === "function" ? await next() : next;
    if (!isCommand(found)) break;
    command.push(word);
    at = found;
  }
  return { command, found: at, isGroup: at.subCommands !== undefined };
}

function isCommand(value: unknown): value is CommandDef {
  return typeof value === "object" && value !== null && "meta" in value;
}

/** A message of citty in the words of our own messages. citty colors its messages and puts words of the command line into them. */
function inOwnWords(message: string): string {
  return stripVTControlCharacters(message)
    .replace(/\.$/, "")
    .replace(/^Missing required (?:positional )?argument: (.*)$/s, "$1 is missing")
    .replace(/^No command specified$/, "a command is missing")
    .replace(/^Unknown command /, "unknown command ");
}

/** Prints an error and returns the exit code. `command` is the command whose help the message names. */
function report(error: unknown, command: readonly string[], rawArgs: readonly string[]): number {
  if (error instanceof CliError) {
    printError(error.message);
    return error.exit;
  }
  // An error of citty: an unknown command or a missing argument.
  if (error instanceof Error && error.name === "CLIError") {
    // A text that was taken for options, such as `-5 + 3`. The value of an option, as in `--model=a b`, may have blanks.
    const text = rawArgs.find((arg) => /^-(?:\d|(?!-).*\s|-[^=]*\s)/s.test(arg));
    const hint = text === undefined ? [...command, "--help"] : [...command, "[options] --", shellWord(text)];
    printError(`${inOwnWords(error.message)}; see: ${ownCommand(hint.join(" ").replace(JOB_CANCEL, "job cancel"))}`);
    return EXIT.usage;
  }
  printError(error instanceof Error ? (error.stack ?? error.message) : String(error));
  return EXIT.error;
}
