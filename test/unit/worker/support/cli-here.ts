import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { ROOT } from "../../../../scripts/coordinator-process.ts";
import { runCli } from "../../../../src/cli/cli.ts";

/** The configuration of commands without `--config-dir`: they must not write into that of the person who runs the tests. */
const CONFIGURATION = join(tmpdir(), `compute-router-tests-${process.pid}`);
process.once("exit", () => rmSync(CONFIGURATION, { recursive: true, force: true }));

/** Resolves when the run before is over: a process has one standard output. */
let before: Promise<unknown> = Promise.resolve();

/**
 * Runs one command line to its end in this process, with arguments, environment and streams as a process of its own would have. Such a process costs half a
 * second of CPU; one is started, by `runCli` of cli-process.ts, where a test is about main.ts, signals, pipes or Node itself. With `isTerminal` all three
 * streams are one, and the input is what a person types ahead.
 */
export function runHere(
  args: string[],
  { env = {}, input = "", isTerminal = false }: { env?: NodeJS.ProcessEnv; input?: string | Uint8Array; isTerminal?: boolean } = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const run = before.then(async () => {
    const [stdout, stderr] = [new Kept(), new Kept()];
    const given = {
      argv: [process.execPath, join(ROOT, "src", "cli", "main.ts"), ...args],
      // As main.ts has it for a pipe.
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], XDG_CONFIG_HOME: CONFIGURATION, NO_COLOR: "1", ...env },
      stdin: Object.assign(isTerminal ? typed(input) : Readable.from([typeof input === "string" ? Buffer.from(input) : input]), { isTTY: isTerminal }),
      stdout: Object.assign(stdout, { isTTY: isTerminal }),
      stderr: Object.assign(stderr, { isTTY: isTerminal }),
    };
    const own = Object.fromEntries(Object.keys(given).map((name) => [name, Object.getOwnPropertyDescriptor(process, name) ?? {}]));
    const { exitCode } = process;
    try {
      for (const [name, value] of Object.entries(given)) Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true });
      process.exitCode = undefined;
      await runCli(args);
      const { exitCode: code } = process;
      return { code: typeof code === "number" ? code : 0, stdout: stdout.text, stderr: stderr.text };
    } finally {
      Object.defineProperties(process, own);
      process.exitCode = exitCode;
    }
  });
  before = run.catch(() => undefined);
  return run;
}

/** What a person has typed ahead; more may come. */
function typed(input: string | Uint8Array): Readable {
  const stream = new Readable({ read: () => {} });
  stream.push(input);
  return stream;
}

/** A pipe that keeps what is written to it. */
class Kept extends Writable {
  text = "";

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}
