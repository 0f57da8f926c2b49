import { type Exit, startChild } from "../../scripts/child.ts";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { CLI } from "./cli.ts";
import { finallyDo } from "./finally.ts";

/** A `compute-router` that runs. */
export type Program = {
  /** The JSON lines of this type so far. */
  notes(type: string): Record<string, unknown>[];
  /** All that it said. */
  text(): string;
  /** SIGTERM; resolves to how it ended. */
  stop(): Promise<Exit>;
};

/** Starts `compute-router` with these arguments; ended after the tests of this file. */
export function startProgram(args: readonly string[]): Program {
  const lines: string[] = [];
  const child = startChild([CLI, ...args], { cwd: ROOT, onLine: (line, stream) => void (stream === "stdout" && lines.push(line)) });
  finallyDo(() => child.stop());
  return {
    notes: (type) => lines.map((line): Record<string, unknown> => JSON.parse(line)).filter((note) => note["type"] === type),
    text: () => child.lines.join("\n"),
    stop: () => child.stop(),
  };
}
