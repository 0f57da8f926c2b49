// BrowserWorker: the worker of the web page, for TASK only. It runs one session per stretch of work, records its jobs, and keeps the finished results.
import * as z from "zod";
import { ENGINE } from "../../tasks/index.ts";
import type { Executor, Signer, TaskExecutor } from "../session/executor.ts";
import {
  createExecutor,
  type KeptResult,
  type Profile,
  type ResultShelf,
  SESSION_TIMING,
  type SessionNote,
  type Socket,
  withinBounds,
  WorkerSession,
} from "../session/index.ts";
import type { History } from "./history.ts";
import type { KeptStore } from "./kept-store.ts";
import { FIRST_REPORT, nextReport, type Report } from "./report.ts";

/** Options of a browser worker. */
type BrowserWorkerOptions = {
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
  /** While no session runs: when the oldest kept result becomes too old. */
  #expiry: ReturnType<typeof setTimeout> | undefined;

  constructor(options: BrowserWorkerOptions) {
    this.#options = options;
    this.#report = { ...FIRST_REPORT, unacknowledged: options.shelf.load().length };
    const execute = createExecutor({ task: options.task });
    this.#execute = (run, hooks) => {
      this.#account(() => options.history.begin({ jobId: run.jobId, attempt: run.attempt, taskType: String(run.payload["task_type"]), startedAt: Date.now() }));
      return execute(run, hooks);
    };
    this.#expire();
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
    clearTimeout(this.#expiry);
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
      else this.#expire();
    });
  }

  /**
   * Drops the results that are too old to be accepted [RC3], now and whenever one becomes so. A session does that itself, but none runs while the worker rests.
   */
  #expire(): void {
    const { shelf } = this.#options;
    const now = Date.now();
    const results = shelf.load().map((result) => ({ result, left: SESSION_TIMING.keepFor - Math.max(0, now - result.completedAt) }));
    const expired = results.filter(({ left }) => left <= 0);
    if (expired.length > 0) shelf.save(results.flatMap(({ result, left }) => (left > 0 ? [result] : [])));
    for (const { result } of expired) this.#note({ type: "result_dropped", job_id: result.jobId, attempt: result.attempt, reason: "expired" });
    const next = Math.min(...results.flatMap(({ left }) => (left > 0 ? [left] : [])));
    if (Number.isFinite(next)) this.#expiry = setTimeout(() => this.#expire(), next);
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

const Kept = z.object({ jobId: z.string(), attempt: z.int(), frame: z.string(), completedAt: z.number() });

/**
 * Finished results that survive the tab. The session needs them at once, but the storage answers later. They are therefore read before the first session and
 * written in the background. If the tab dies in the milliseconds between, the result survives only if the coordinator already has it.
 */
export class IndexedShelf implements ResultShelf {
  readonly #database: ShelfStore;
  readonly #onSave: (results: readonly KeptResult[]) => void;
  readonly #onFailure: (cause: unknown) => void;
  #results: readonly KeptResult[];

  private constructor(database: ShelfStore, results: readonly KeptResult[], hooks: ShelfHooks) {
    this.#database = database;
    this.#results = results;
    this.#onSave = hooks.onSave;
    this.#onFailure = hooks.onFailure;
  }

  static async open(database: ShelfStore, hooks: ShelfHooks): Promise<IndexedShelf> {
    const results = (await database.all("results")).flatMap((value) => {
      const kept = Kept.safeParse(value);
      return kept.success ? [kept.data] : [];
    });
    return new IndexedShelf(database, withinBounds(results.sort((a, b) => a.completedAt - b.completedAt)), hooks);
  }

  load(): readonly KeptResult[] {
    return this.#results;
  }

  save(results: readonly KeptResult[]): void {
    const before = new Set(this.#results.map(keyOf));
    const now = new Set(results.map(keyOf));
    const fresh = results.filter((result) => !before.has(keyOf(result)));
    this.#results = results;
    const gone = [...before].filter((key) => !now.has(key));
    void this.#database
      .change(
        "results",
        fresh.map((result) => [keyOf(result), result]),
        gone,
      )
      .catch(this.#onFailure);
    this.#onSave(fresh);
  }
}

type ShelfStore = Pick<KeptStore, "all" | "change">;

type ShelfHooks = {
  /** Called with the new results. */
  onSave: (fresh: readonly KeptResult[]) => void;
  onFailure: (cause: unknown) => void;
};

function keyOf({ jobId, attempt }: KeptResult): string {
  return `${jobId} ${attempt}`;
}
