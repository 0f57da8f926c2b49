// The tasks of a browser worker in a thread of its own, which the engine starts and ends. On a job's way: the run of a TASK.
import type { TaskAnswer } from "../../tasks/index.ts";

/**
 * Runs the built-in tasks in a Web Worker. A long text takes seconds on a phone. Without a thread, heartbeats and cancels would wait, and a task could not be
 * aborted. The thread stays for the next task.
 */
export class ThreadedTasks {
  readonly #spawn: () => Worker;
  readonly #onUnloadable: () => void;
  #thread: Worker | null = null;

  /** `onUnloadable` is called if a thread ends before its first answer, because its program may no longer exist on the server. */
  constructor(spawn: () => Worker, onUnloadable: () => void) {
    this.#spawn = spawn;
    this.#onUnloadable = onUnloadable;
  }

  /** Starts the thread, so that the first task does not wait for it. */
  warmUp(): void {
    this.#thread ??= this.#start();
  }

  /** Runs a task and returns its output. Rejects if the task throws, the thread cannot start, or the task is aborted. One task at a time. */
  readonly run = (taskType: string, input: string, signal: AbortSignal): Promise<Record<string, unknown>> => {
    const thread = (this.#thread ??= this.#start());
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
    thread.addEventListener("error", () => fail("thread lost"), { signal: until });
    signal.addEventListener("abort", () => fail("aborted"), { signal: until });
    thread.postMessage({ taskType, input });
    return promise.finally(() => listening.abort());
  };

  #start(): Worker {
    const thread = this.#spawn();
    let answered = false;
    thread.addEventListener("message", () => (answered = true), { once: true });
    // Also between two tasks, because a task in a dead thread would never get an answer.
    thread.addEventListener("error", (event) => {
      // Otherwise the browser reports the error to the page too, as one of this thread.
      event.preventDefault();
      this.#end(thread);
      if (!answered) this.#onUnloadable();
    });
    return thread;
  }

  #end(thread: Worker): void {
    thread.terminate();
    if (this.#thread === thread) this.#thread = null;
  }
}
