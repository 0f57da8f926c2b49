// BrowserWorker: the worker of the web page. It runs one session per stretch of work and records its jobs. Its jobs are TASK only.
import { ENGINE } from "../../tasks/index.ts";
import { createExecutor, type Profile, type SessionNote, type Socket, WorkerSession } from "../session/index.ts";
import type { Executor, TaskExecutor } from "../session/runner.ts";
import type { Signer } from "../session/seal.ts";
import type { History } from "./history.ts";
import { FIRST_REPORT, nextReport, type Report } from "./report.ts";
import type { IndexedShelf } from "./kept-store.ts";

/** Options of a browser worker. */
export type BrowserWorkerOptions = {
  /** `ws:` or `wss:` URL of the coordinator. */
  url: string;
  WebSocket: new (url: string) => Socket;
  signer: Signer;
  shelf: IndexedShelf;
  history: History;
  task: TaskExecutor;
  version: string;
  onReport: (report: Report) => void;
  onNote: (note: SessionNote) => void;
};

/**
 * A worker in a page, for TASK only [SPEC]. It works or rests as it is told. Each stretch of work is one session, and a rest lets that session finish. If work
 * is wanted again in the meantime, it starts when the old session has ended.
 */
export class BrowserWorker {
  readonly #options: BrowserWorkerOptions;
  readonly #execute: Executor;
  #report: Report;
  #session: WorkerSession | null = null;
  #wanted = false;

  constructor(options: BrowserWorkerOptions) {
    this.#options = options;
    this.#report = { ...FIRST_REPORT, unacknowledged: options.shelf.load().length };
    const execute = createExecutor({ task: options.task });
    this.#execute = (run, hooks) => {
      this.#account(() => options.history.begin({ jobId: run.jobId, attempt: run.attempt, taskType: String(run.payload["task_type"]), startedAt: Date.now() }));
      return execute(run, hooks);
    };
  }

  /** The current state. */
  get report(): Report {
    return this.#report;
  }

  /** Takes jobs from now on. */
  work(): void {
    this.#wanted = true;
    if (this.#session === null) this.#begin();
  }

  /** Finishes the current job, delivers its result and leaves [WS11]. */
  rest(): void {
    this.#wanted = false;
    void this.#session?.drain();
  }

  /** Leaves at once. */
  stop(): void {
    this.#wanted = false;
    this.#session?.stop();
  }

  /** Checks the link now. */
  nudge(): void {
    this.#session?.nudge();
  }

  /** The kept results have changed. */
  recount(): void {
    this.#show(this.#report);
  }

  #begin(): void {
    const { url, WebSocket, signer, shelf, version } = this.#options;
    const profile: Profile = { providerType: "MOBILE", capabilities: ["TASK"], models: [], engine: ENGINE, name: "browser", version };
    const session = new WorkerSession({ url, WebSocket, signer, profile, shelf, execute: this.#execute, onNote: (note) => this.#note(note) });
    this.#session = session;
    session.start();
    void session.ended.then(({ reason }) => {
      this.#session = null;
      this.#account(() => this.#options.history.ended());
      // Another worker uses this key, or the coordinator refuses this worker. An automatic retry would not help.
      if (reason !== "drained" && reason !== "stopped") this.#wanted = false;
      if (this.#wanted) this.#begin();
    });
  }

  #note(note: SessionNote): void {
    this.#account(() => this.#options.history.note(note));
    this.#show(nextReport(this.#report, note, Date.now()));
    this.#options.onNote(note);
  }

  /** Writes to the list of jobs. A failure there must never stop a job. */
  #account(write: () => void): void {
    try {
      write();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : "unexpected error";
      this.#options.onNote({ type: "warning", code: "cannot_keep", message: `the list of jobs is incomplete: ${why}` });
    }
  }

  #show(report: Report): void {
    this.#report = { ...report, unacknowledged: this.#options.shelf.load().length };
    this.#options.onReport(this.#report);
  }
}

const TICK_MS = 5_000;
/** A timer that is less late than this means a busy machine, not a sleeping one. */
const LATE_MS = 15_000;

/**
 * Reports when this thread was stopped: the device slept, or the browser froze the page. There is no event for that in every browser, and the clock of timers
 * may stop too, so this function watches the wall clock.
 */
export function watchSleep(onWake: (from: number, to: number) => void): void {
  let last = Date.now();
  setInterval(() => {
    const now = Date.now();
    if (now - last > TICK_MS + LATE_MS) onWake(last, now);
    last = now;
  }, TICK_MS);
}
