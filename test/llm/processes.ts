import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { INSTALL_COMMAND, isEmbeddedInstalled } from "../../src/worker/runtimes/embedded-install.ts";

/** Fails the tests, with the command to run, when the embedded runtime is missing. */
export function requireEmbedded(): void {
  if (!isEmbeddedInstalled()) throw new Error(`These tests need the embedded runtime. Run: ${INSTALL_COMMAND}`);
}

/** Starts Node on these arguments; resolves with its first line of output. Killed when the test ends, or when `atEnd` does its duties. */
export async function startNode(args: string[], atEnd: (duty: () => void) => void = onTestFinished): Promise<{ child: ChildProcess; line: unknown }> {
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  atEnd(() => void child.kill("SIGKILL"));
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return { child, line: JSON.parse(String(line)) };
}

/** True when the process runs no more; one that nobody waited for counts as ended. */
export function hasEnded(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return true;
  }
  return process.platform === "linux" && / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}
