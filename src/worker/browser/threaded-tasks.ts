import type { TaskAnswer } from "./task-thread.ts";

/**
 * Runs the built-in tasks in a worker of their own: a long text takes seconds on a phone, during which heartbeats and cancels would wait, and a
 * thread can be ended in the middle. The thread stays for the next task.
 */
export class ThreadedTasks {
  readonly #spawn: () => Worker;
  readonly #onUnloadable: () => void;
  #thread: Worker | null = null;

  /** `onUnloadable` is called when a thread has ended before it ever answered: its program may be gone. */
  constructor(spawn: () => Worker, onUnloadable: () => void) {
    this.#spawn = spawn;
    this.#onUnloadable = onUnloadable;
  }

  /** Starts the thread, so that the first task does not wait for it. */
  warmUp(): void {
    this.#thread ??= this.#start();
  }

  /** The output of a task. Rejects when the task does, when the thread cannot start, and when it is aborted. One at a time. */
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
    // Also between two tasks: a task that is given to a dead thread would wait for an answer that never comes.
    thread.addEventListener("error", () => {
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
