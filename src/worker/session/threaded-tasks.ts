// The tasks of a worker in a thread of its own, on a computer and in a browser. On a job's way: the run of a TASK.
import type { TaskAnswer } from "../../tasks/index.ts";

/** A thread that runs tasks, as its platform starts it. */
export type TaskThread = {
  post: (call: { taskType: string; input: string }) => void;
  /** Ends it at once; a promise resolves when it has ended. */
  end: () => Promise<unknown> | void;
};

/** What a platform reports of a thread. */
export type ThreadHooks = {
  onAnswer: (answer: TaskAnswer) => void;
  /** The thread is lost, perhaps between two tasks. It may be reported more than once. */
  onLost: () => void;
};

/**
 * Runs the built-in tasks in a thread. They are synchronous and take seconds for a long text on a phone. On the thread of the session, heartbeats and cancels
 * would wait, and a task could not be aborted. The thread stays for the next task.
 */
export class ThreadedTasks {
  readonly #spawn: (hooks: ThreadHooks) => TaskThread;
  #thread: TaskThread | null = null;
  /** Settles the task that runs. */
  #settle: (answer: TaskAnswer) => void = () => {};

  constructor(spawn: (hooks: ThreadHooks) => TaskThread) {
    this.#spawn = spawn;
  }

  /** Starts the thread, so that the first task does not wait for it. */
  warmUp(): void {
    this.#thread ??= this.#start();
  }

  /** Runs a task and returns its output. Rejects if the task throws, the thread is lost, or the task is aborted. One task at a time. */
  readonly run = (taskType: string, input: string, signal: AbortSignal): Promise<Record<string, unknown>> =>
    new Promise((resolve, reject) => {
      const thread = (this.#thread ??= this.#start());
      const onAbort = () => void this.#end(thread, "aborted");
      this.#settle = (answer) => {
        signal.removeEventListener("abort", onAbort);
        if (answer.ok) resolve(answer.output);
        else reject(Object.assign(new Error(`the task failed: ${answer.name}`), { name: answer.name }));
      };
      signal.addEventListener("abort", onAbort);
      thread.post({ taskType, input });
    });

  /** Ends the thread. */
  async close(): Promise<void> {
    if (this.#thread !== null) await this.#end(this.#thread, "closed");
  }

  #start(): TaskThread {
    const thread = this.#spawn({
      onAnswer: (answer) => {
        if (this.#thread === thread) this.#settle(answer);
      },
      onLost: () => void this.#end(thread, "thread lost"),
    });
    return thread;
  }

  /** Ends a thread, unless it is no longer the present one, and the task that it runs. */
  #end(thread: TaskThread, name: string): Promise<unknown> | void {
    if (this.#thread !== thread) return;
    this.#thread = null;
    this.#settle({ ok: false, name });
    return thread.end();
  }
}
