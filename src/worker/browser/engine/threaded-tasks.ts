import type { TaskAnswer } from "./task-thread.ts";

/**
 * Runs the built-in tasks in a worker of their own: a long text takes seconds on a phone, during which heartbeats and cancels would wait, and a
 * thread can be ended in the middle. The thread stays for the next task.
 */
export class ThreadedTasks {
  readonly #spawn: () => Worker;
  #thread: Worker | null = null;

  constructor(spawn: () => Worker) {
    this.#spawn = spawn;
  }

  /** Starts the thread, so that the first task does not wait for it. */
  warmUp(): void {
    this.#thread ??= this.#spawn();
  }

  /** The output of a task. Rejects when the task does, when the thread cannot start, and when it is aborted. One at a time. */
  readonly run = (taskType: string, input: string, signal: AbortSignal): Promise<Record<string, unknown>> => {
    const thread = (this.#thread ??= this.#spawn());
    const { promise, resolve, reject } = Promise.withResolvers<Record<string, unknown>>();
    const listening = new AbortController();
    const fail = (name: string) => {
      this.#end(thread);
      reject(Object.assign(new Error("the task failed"), { name }));
    };
    const { signal: until } = listening;
    thread.addEventListener(
      "message",
      ({ data }: MessageEvent<TaskAnswer>) => (data.ok ? resolve(data.output) : reject(Object.assign(new Error("the task failed"), { name: data.name }))),
      { signal: until },
    );
    // Also when the page is older than the coordinator, which no longer has this version's thread.
    thread.addEventListener("error", () => fail("thread lost"), { signal: until });
    signal.addEventListener("abort", () => fail("aborted"), { signal: until });
    thread.postMessage({ taskType, input });
    return promise.finally(() => listening.abort());
  };

  #end(thread: Worker): void {
    thread.terminate();
    if (this.#thread === thread) this.#thread = null;
  }
}
