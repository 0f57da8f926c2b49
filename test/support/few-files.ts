// Programs that may open few files, so that connections alone could end them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { finallyDo } from "./finally.ts";
import { get } from "./rest.ts";
import { until } from "./until.ts";

const FILES = 1_024;
const CONNECTIONS = 1_500;

/** A program that runs. */
export type Started = {
  readonly pid: number;
  /** The lines of both its streams. */
  readonly lines: readonly string[];
  /** Resolves to its exit code when it has ended. */
  readonly exited: Promise<unknown>;
};

/**
 * Runs this Node with `args` and lets it open so many files, by default 1,024: a shell sets that limit, and becomes this Node; ended after the tests of this
 * file.
 */
export function startWithFewFiles(args: readonly string[], env: Record<string, string> = {}, files = FILES): Started {
  const limited = ["-c", `ulimit -n ${files} && exec "$0" "$@"`, process.execPath, ...args];
  const child = spawn("sh", limited, { cwd: ROOT, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const lines: string[] = [];
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on("line", (line) => lines.push(line));
  const exited = once(child, "close").then(([code]: unknown[]) => code);
  finallyDo(async () => {
    child.kill();
    await exited;
  });
  return { pid: child.pid ?? expect.unreachable(), lines, exited };
}

/** Opens more connections than it may open files: it says so at its start, closes what is too much, and goes on. */
export async function survivesConnections({ lines }: Started, port: number): Promise<void> {
  expect(lines.join("\n")).toContain(`only ${FILES} open files are allowed`);
  let ended = 0;
  const sockets = Array.from({ length: CONNECTIONS }, () => connect(port, "127.0.0.1"));
  for (const socket of sockets) socket.on("error", () => {}).on("close", () => ended++);
  // What is not closed is held.
  await until("closed connections", () => (ended > 1_000 ? true : undefined));
  for (const socket of sockets) socket.destroy();
  await until("an answer", async () => ((await get(`http://127.0.0.1:${port}/v1/health`).catch(() => null))?.status === 200 ? true : undefined));
  // workerd crashes when it cannot accept a connection. If it can, but has no second file for it, it only says so.
  expect(lines.join("\n")).not.toMatch(/crash|Too many open files/);
}
