import { runTask } from "../../tasks/index.ts";

/** The messages to and from the thread. */
export type TaskCall = { taskType: Parameters<typeof runTask>[0]; input: string };
export type TaskAnswer = { ok: true; output: Record<string, unknown> } | { ok: false; name: string };

declare const self: DedicatedWorkerGlobalScope;

self.addEventListener("message", ({ data }: MessageEvent<TaskCall>) => {
  self.postMessage(answer(data));
});

function answer({ taskType, input }: TaskCall): TaskAnswer {
  try {
    return { ok: true, output: { ...runTask(taskType, input) } };
  } catch (error) {
    return { ok: false, name: error instanceof Error ? error.name : "unexpected error" };
  }
}
