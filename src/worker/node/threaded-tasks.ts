import { Worker } from "node:worker_threads";
import type { TaskAnswer } from "../../tasks/index.ts";

// The compiler rewrites the ending of imports, but not of a URL.
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./task-thread.ts" : "./task-thread.js", import.meta.url);

/**
 * Runs the built-in tasks in a thread. They are synchronous and may take a second of CPU. On the main thread, heartbeats, cancels and signals of the system
 * would wait, and a task could not be aborted. The thread stays for the next task and does not keep the process alive.
 */
export class ThreadedTasks {
  #thread: Worker | null = null;

  /** Starts the thread, so that the first task does not wait for it. */
  warmUp(): void {
    this.#thread ??= this.#spawn();
  }

  /** Runs a task and returns its output. Rejects if the task throws, the thread dies, or the task is aborted. One task at a time. */
  readonly run = (taskType: string, input: string, signal: AbortSignal): Promise<Record<string, unknown>> => {
    const thread = (this.#thread ??= this.#spawn());
    let resolve: (output: Record<string, unknown>) => void = () => {};
    let reject: (error: unknown) => void = () => {};
    // Not Promise.withResolvers: `worker doctor` runs on Node 20 too.
    const promise = new Promise<Record<string, unknown>>((...settle) => ([resolve, reject] = settle));
    const onAnswer = (answer: TaskAnswer) => (answer.ok ? resolve(answer.output) : reject(Object.assign(new Error("the task failed"), { name: answer.name })));
    const onDeath = (cause: unknown) => reject(new Error("the task thread died", { cause }));
    const onAbort = () => {
      this.#forget(thread);
      void thread.terminate();
      reject(new Error("aborted"));
    };
    thread.on("message", onAnswer).on("error", onDeath).on("exit", onDeath);
    signal.addEventListener("abort", onAbort, { once: true });
    thread.postMessage({ taskType, input });
    return promise.finally(() => {
      thread.off("message", onAnswer).off("error", onDeath).off("exit", onDeath);
      signal.removeEventListener("abort", onAbort);
    });
  };

  /** Ends the thread. */
  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = null;
    await thread?.terminate();
  }

  #spawn(): Worker {
    const thread = new Worker(THREAD);
    thread.unref();
    // Also between two tasks, because an `error` event without a listener would end the process.
    return thread.on("error", () => this.#forget(thread)).on("exit", () => this.#forget(thread));
  }

  #forget(thread: Worker): void {
    if (this.#thread === thread) this.#thread = null;
  }
}
