// Child processes of the scripts: start one that cannot outlive its parent, read its lines, and stop it with everything that it started.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { SAME_KEYPRESS_MS } from "../src/cli/same-keypress.ts";

const STOP_TIMEOUT_MS = 10_000;
const KEPT_LINES = 200;
const LEASH = new URL("leash.mjs", import.meta.url).href;

/** How a child ended: its exit code, or the signal that ended it. */
export type Exit = number | NodeJS.Signals;

/** A Node program that runs as a child process and cannot outlive this process. */
export type Child = {
  readonly pid: number;
  /** Resolves when the child and its own children have ended. */
  readonly exited: Promise<Exit>;
  /** The last lines that it printed, on both streams, without colours. */
  readonly lines: readonly string[];
  /** Stops it with SIGTERM, and with SIGKILL after 10 s. */
  stop(): Promise<Exit>;
  /** SIGKILL for it and its children. */
  kill(): Promise<Exit>;
};

/** How to start a child. */
export type ChildOptions = {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Called for each line that it prints, without colours. */
  onLine?: (line: string, stream: "stdout" | "stderr") => void;
};

/** Runs this Node with `args` in a separate process group, so that Ctrl-C reaches the child only through `stop`. */
export function startChild(args: readonly string[], options: ChildOptions = {}): Child {
  const child = spawn(process.execPath, ["--no-warnings", "--import", LEASH, ...args], {
    cwd: options.cwd,
    env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0", ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
    detached: process.platform !== "win32",
  });
  const { pid } = child;
  if (pid === undefined) throw new Error(`cannot start ${args.join(" ")}`);
  const lines: string[] = [];
  const read = (stream: "stdout" | "stderr"): void => {
    createInterface({ input: child[stream] }).on("line", (coloured) => {
      const line = stripVTControlCharacters(coloured);
      lines.push(line);
      if (lines.length > KEPT_LINES) lines.shift();
      options.onLine?.(line, stream);
    });
  };
  read("stdout");
  read("stderr");
  // A dead child closes the pipe; its exit event reports that.
  child.stdin.on("error", () => {});
  const exited = new Promise<Exit>((resolve) => {
    // Kill its remaining children: a workerd survives a killed wrangler.
    child.once("exit", () => signalGroup(pid, "SIGKILL"));
    child.once("close", (code, signal) => resolve(signal ?? code ?? 1));
  });
  const running = (): boolean => child.exitCode === null && child.signalCode === null;
  return {
    pid,
    exited,
    lines,
    async stop() {
      const force = setTimeout(() => running() && signalGroup(pid, "SIGKILL"), STOP_TIMEOUT_MS);
      if (running()) child.kill("SIGTERM");
      const exit = await exited;
      clearTimeout(force);
      return exit;
    },
    kill() {
      if (running()) signalGroup(pid, "SIGKILL");
      return exited;
    },
  };
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, signal);
  } catch {
    // The group has no process any more.
  }
}

/** Resolves at the first Ctrl-C or SIGTERM. A later one ends this process at once; its children then end automatically. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first: number | null = null;
    const on = (signal: NodeJS.Signals): void => {
      if (first !== null && Date.now() - first > SAME_KEYPRESS_MS) process.exit(1);
      first ??= Date.now();
      resolve(signal);
    };
    process.on("SIGINT", on).on("SIGTERM", on).on("SIGHUP", on);
  });
}

const PATIENCE_MS = 4_000;
const POLL_MS = 100;

/** Tries until there is a result, by default for 4 s. After Ctrl-C, npm returns to the prompt before the old session has released its port and its state. */
export async function patiently<T>(attempt: () => T | null | Promise<T | null>, patienceMs: number = PATIENCE_MS): Promise<T | null> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const result = await attempt();
    if (result !== null || Date.now() > deadline) return result;
    await delay(POLL_MS);
  }
}
