import { parentPort } from "node:worker_threads";
import { runTask } from "../../tasks/index.ts";

/** The messages to and from the thread. */
export type TaskCall = { taskType: Parameters<typeof runTask>[0]; input: string };
export type TaskAnswer = { ok: true; output: Record<string, unknown> } | { ok: false; name: string };

parentPort?.on("message", ({ taskType, input }: TaskCall) => {
  parentPort?.postMessage(answer(taskType, input));
});

function answer(taskType: TaskCall["taskType"], input: string): TaskAnswer {
  try {
    return { ok: true, output: { ...runTask(taskType, input) } };
  } catch (error) {
    return { ok: false, name: error instanceof Error ? error.name : "unexpected error" };
  }
}
