// What all commands share: a definition that refuses unknown options and words, the error with which a command ends, the exit codes, and what a
// command prints.
import { type ArgsDef, type CommandContext, type CommandDef, defineCommand } from "citty";
import { ownCommand } from "../worker/node/program.ts";
import { printable } from "../protocol/text.ts";

type Definition<T extends ArgsDef> = {
  /** True to omit it from the list of sub-commands. */
  hidden?: boolean;
  name: string;
  description: string;
  args: T;
  /** `all` returns every value of an option that may be given more than once. */
  run: (args: CommandContext<T>["args"], all: (option: string) => string[]) => Promise<void> | void;
  /** Options that may be given more than once. */
  many?: readonly string[];
  /** What to do instead, for words that the command does not take. It gets all words. */
  advice?: (words: readonly string[]) => string;
};

/** Defines a command that refuses unknown options and words. citty accepts them silently, so a typing error would change the meaning. */
export function command<const T extends ArgsDef>({ name, description, args, run, hidden = false, many = [], advice }: Definition<T>): CommandDef<T> {
  const words = Object.values(args).filter((arg) => arg.type === "positional").length;
  return defineCommand<T>({
    meta: { name: `compute-router ${name}`, description, hidden },
    args,
    run: async (context) => {
      refuseWithoutValue(context.rawArgs, args, name);
      for (const [option, value] of Object.entries(context.args)) {
        if (option === "_") continue;
        const definition = args[option] ?? args[option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)];
        if (definition === undefined) throw usage(`unknown option --${option}`, name);
        // citty reads `--no-name` as `name: false`.
        if (definition.type === "string" && typeof value !== "string") throw usage(`unknown option --no-${option}`, name);
        if (value === "" && definition.type === "string") throw usage(`--${option} needs a value`, name);
      }
      for (const [option, { type }] of Object.entries(args))
        if (type === "string" && !many.includes(option) && valuesOf(context.rawArgs, option).length > 1)
          throw usage(`--${option} was given more than once`, name);
      const given = context.args._;
      if (given.length > words) throw usage(`unexpected "${given[words]}"${advice === undefined ? "" : `: ${advice(given)}`}`, name);
      await run(context.args, (option) => valuesOf(context.rawArgs, option));
    },
  });
}

/**
 * Refuses an option that needs a value and is directly followed by another option. The parser would take that one as the value. A value that looks like an
 * option can be given as `--option=value`.
 * @throws {CliError}
 */
export function refuseWithoutValue(rawArgs: readonly string[], args: ArgsDef, name: string): void {
  const end = rawArgs.indexOf("--");
  for (const [i, arg] of rawArgs.slice(0, end === -1 ? rawArgs.length : end).entries()) {
    const option = arg.slice(2);
    const [, next = ""] = /^--(?:no-)?([^=]+)/.exec(rawArgs[i + 1] ?? "") ?? [];
    if (arg.startsWith("--") && args[option]?.type === "string" && Object.hasOwn(args, next)) throw usage(`--${option} needs a value`, name);
  }
}

/** Every value of an option on a command line. The parser keeps only the last one. */
function valuesOf(rawArgs: readonly string[], option: string): string[] {
  const end = rawArgs.indexOf("--");
  const args = end === -1 ? rawArgs : rawArgs.slice(0, end);
  return args.flatMap((arg, i) => {
    if (arg === `--${option}`) return args[i + 1] ?? [];
    return arg.startsWith(`--${option}=`) ? arg.slice(option.length + 3) : [];
  });
}

function usage(problem: string, name: string): CliError {
  return new CliError(EXIT.usage, `${problem}; see: ${ownCommand(`${name} --help`)}`);
}

/** An error that a person can fix; `message` tells how. It sets the exit code of the program. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exit: Exclude<(typeof EXIT)[keyof typeof EXIT], 0>;

  constructor(exit: CliError["exit"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.exit = exit;
  }
}

/** Exit codes of `compute-router`; the help prints them. */
export const EXIT = {
  ok: 0,
  /** Something unexpected. */
  error: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The key file cannot be used, or another process is this worker. */
  key: 3,
  /** Another worker with the same key has connected. */
  replaced: 4,
  /** The coordinator refuses: registration, signature, network, payment, pairing code. */
  refused: 5,
  /** The coordinator cannot be reached. */
  unreachable: 6,
  /** The job failed or did not end in time. */
  job: 7,
  /** A receipt does not verify. */
  receipt: 8,
  /** `worker status`: no worker runs here. */
  notRunning: 9,
  /** A receipt could not be checked. */
  unchecked: 10,
  /** Ctrl-C ended it. */
  interrupted: 130,
} as const;

/** The meanings of the exit codes, for the help. */
export const EXIT_HELP =
  "Exit codes: 0 ok, 1 error, 2 usage, 3 key file or lock, 4 replaced by another worker, 5 refused, 6 unreachable, 7 job failed, 8 receipt invalid, 9 no worker runs, 10 receipt not checked, 130/143 ended by Ctrl-C or a signal";

// Text of this program is printed unchanged, with its colors. Untrusted text (of a coordinator, a worker, a file, the environment) is escaped: by `untrusted`
// as a part of a line, by `printUntrusted` as a block, and by `printError` in an error, which has no colors.

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

/** Milliseconds in the two largest units. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Prints a message on standard error. It is escaped, because much of it may be untrusted text. */
export function printError(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}
