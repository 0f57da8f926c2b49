import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { until } from "../../../support/until.ts";

const MAIN = join(import.meta.dirname, "..", "..", "..", "..", "src", "cli", "main.ts");

/** Whether terminals can be made here. */
export const hasScript = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

/** A program on a terminal: all that it said, escape sequences too, and what to type. */
export type Terminal = { said: () => string; says: (text: string) => Promise<true>; type: (text: string) => void; exited: Promise<number> };

/** Runs `compute-router` on a terminal of its own, which util-linux's `script` makes. */
export function terminal(args: readonly string[], env: NodeJS.ProcessEnv = {}): Terminal {
  const command = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-qefc", `stty cols 120; exec ${command}`, "/dev/null"], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], TERM: "xterm", ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout.on("data", (data: Buffer) => (said += data.toString("utf8")));
  return {
    said: () => said,
    says: (text) =>
      until(
        `"${text}" on the terminal`,
        () => (said.includes(text) ? true : undefined),
        () => said,
      ),
    type: (text) => child.stdin.write(text),
    exited: once(child, "exit").then(([code]) => Number(code)),
  };
}
