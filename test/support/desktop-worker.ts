import { type Child, startChild } from "../../scripts/child.ts";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { CLI } from "./cli.ts";
import { temporaryFolder } from "./coordinator.ts";
import { finallyDo } from "./finally.ts";
import { until } from "./until.ts";

/** A real desktop worker process. */
export type DesktopWorkerProcess = {
  readonly child: Child;
  /** Where it keeps its key. */
  readonly folder: string;
  /** Everything that it has told, oldest first. */
  readonly notes: readonly Record<string, unknown>[];
  /** Resolves to the first note of this type. */
  note(type: string): Promise<Record<string, unknown>>;
};

/**
 * Starts `compute-router worker` as a person would; ended after the tests of this file. `llm` is the embedded runtime with the tiny model, or the address of a
 * server.
 */
export function launchDesktopWorker(socketUrl: string, options: { llm: boolean | string; args?: string[] }): DesktopWorkerProcess {
  const folder = temporaryFolder("worker");
  const runtime = typeof options.llm === "string" ? ["--llm-url", options.llm] : options.llm ? ["--runtime", "embedded"] : ["--tasks-only"];
  const notes: Record<string, unknown>[] = [];
  const child = startChild([CLI, "worker", "--url", socketUrl, "--json", "--config-dir", folder, ...runtime, ...(options.args ?? [])], {
    cwd: ROOT,
    onLine: (line, stream) => {
      if (stream === "stdout") notes.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
  finallyDo(() => child.stop());
  const gone = child.exited.then((exit) => {
    throw new Error(`the worker ended (${exit})\n${child.lines.join("\n")}`);
  });
  gone.catch(() => {});
  return {
    child,
    folder,
    notes,
    note: (type) => {
      const told = until(
        `note ${type}`,
        () => notes.find((note) => note.type === type),
        () => child.lines.join("\n"),
      );
      return Promise.race([told, gone]);
    },
  };
}
