// Runs the command line and worker processes for tests.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { CLI } from "../../../support/cli.ts";
import { atTheEnd } from "./ends.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..", "..");
const QUICK = join(import.meta.dirname, "quick-worker.ts");

type Line = Record<string, unknown>;

function launch(args: string[], env: NodeJS.ProcessEnv, stdin: "ignore" | "pipe" = "ignore", program = CLI) {
  const plain = { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], ...env };
  return spawn(process.execPath, [program, ...args], { cwd: ROOT, env: plain, stdio: [stdin, "pipe", "pipe"] });
}

/** Runs one command line to its end. */
export async function runCli(
  args: string[],
  { env = {}, input }: { env?: NodeJS.ProcessEnv; input?: string } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = launch(args, env, input === undefined ? "ignore" : "pipe");
  child.stdin?.end(input);
  if (child.stdout === null || child.stderr === null) throw new Error("no pipes");
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code, stdout, stderr };
}

/** A worker process with JSON lines. */
export class WorkerProcess {
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly #lines: AsyncIterator<string>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly stderr: Promise<string>;

  constructor(
    args: string[],
    env: NodeJS.ProcessEnv = {},
    child = launch(["worker", "--json", ...args], env) as ChildProcessByStdio<null, Readable, Readable>,
  ) {
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
    this.stderr = text(child.stderr);
    atTheEnd(() => child.kill("SIGKILL"));
  }

  /** A desktop worker whose times are short, see quick-worker.ts. */
  static quick(url: string, folder: string): WorkerProcess {
    return new WorkerProcess([], {}, launch([url, folder], {}, "ignore", QUICK) as ChildProcessByStdio<null, Readable, Readable>);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Sends a signal until the process has ended, because one that comes within a second of the first is the same. */
  async killAgain(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const again = setInterval(() => this.kill(signal), 50);
    try {
      return await this.exited;
    } finally {
      clearInterval(again);
    }
  }

  /** The next JSON line of this type. */
  async says(type: string): Promise<Line> {
    for (;;) {
      const { done, value } = await this.#lines.next();
      if (done === true) throw new Error(`the worker ended without saying ${type}: ${await this.stderr}`);
      const line: Line = JSON.parse(value);
      if (line["type"] === type) return line;
    }
  }
}
