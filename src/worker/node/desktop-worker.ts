// DesktopWorker: one session per coordinator with its thread for tasks and its file of kept results, and one LLM for all of them. On a job's way: the run on a
// computer.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import * as z from "zod";
import type { KeyPair } from "../../receipt/ed25519.ts";
import { ENGINE } from "../../tasks/index.ts";
import type { Found } from "../runtimes/probe.ts";
import { announcedNames } from "../runtimes/runtime.ts";
import {
  createExecutor,
  type KeptResult,
  type Profile,
  type ResultShelf,
  seedSigner,
  type SessionNote,
  type SessionTiming,
  type Socket,
  type Stop,
  type TaskThread,
  ThreadedTasks,
  type ThreadHooks,
  withinBounds,
  WorkerSession,
} from "../session/index.ts";
import { replaceFile } from "./atomic-files.ts";
import { ReasonedSocket } from "./connect-reason.ts";
import { type RuntimeNote, RuntimeShare, RuntimeWatch } from "./runtime-watch.ts";
import { Standby } from "./standby.ts";
import { workerId } from "./worker-lock.ts";

/** Everything that a desktop worker tells its owner. A note of a session has the name of its coordinator. */
export type WorkerNote = ((SessionNote | StandbyNote) & { coordinator: string }) | RuntimeNote;

/** What a standby worker does about LLM jobs: it leaves them to other workers, or takes them itself. */
type StandbyNote = { type: "standby"; llm: "left" | "taken" };

/** A coordinator to work for. */
export type CoordinatorPlace = {
  /** `ws:` or `wss:` URL. */
  url: string;
  /** CAIP-2 id; the worker leaves if the coordinator serves another network. */
  network?: string;
};

/** Options of a desktop worker. */
type DesktopOptions = {
  /** At least one, without duplicates. */
  coordinators: readonly CoordinatorPlace[];
  key: KeyPair;
  /** Folder of the kept results. */
  folder: string;
  /** Searches for an LLM. Without it, the worker takes TASK only. */
  findRuntime?: (signal: AbortSignal) => Promise<Found>;
  /** True to take LLM jobs only while no other worker of the coordinator takes them. */
  standby?: boolean;
  name?: string;
  version?: string;
  onNote: (note: WorkerNote) => void;
  timing?: Partial<SessionTiming>;
  WebSocket?: new (url: string) => Socket;
};

type Link = { session: WorkerSession; tasks: ThreadedTasks; standby: Standby | undefined };

/** The name of a coordinator in notes and on the screen: its host, and its path if it has one. */
export function coordinatorName(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname.replace(/\/+$/, "")}`;
}

/**
 * A worker on a computer: it runs TASK with the built-in logic in a thread, and LLM_INFER with the LLM runtime of this machine [SPEC]. It may work for several
 * coordinators with one key: one job at a time for each, and one LLM job at a time for all of them.
 */
export class DesktopWorker {
  readonly #options: DesktopOptions;
  readonly #watch: RuntimeWatch | undefined;
  readonly #share = new RuntimeShare();
  readonly #links: readonly Link[];
  /** Number of running LLM jobs. */
  #answering = 0;

  constructor(options: DesktopOptions) {
    this.#options = options;
    const { findRuntime } = options;
    if (findRuntime !== undefined) {
      this.#watch = new RuntimeWatch({ find: findRuntime, isBusy: () => this.#answering > 0, onNote: (note) => this.#runtimeChanged(note) });
    }
    this.#links = options.coordinators.map((place) => this.#link(place));
    this.#share.among(this.#links.map(({ session }) => session));
  }

  /** Resolves when every session has ended for good, with the reasons in the order of the coordinators. */
  get ended(): Promise<Stop[]> {
    return Promise.all(this.#links.map(({ session }) => session.ended));
  }

  /** Goes online for TASK at once, and for LLM_INFER as soon as a runtime has answered. */
  start(): void {
    for (const { tasks, session } of this.#links) {
      tasks.warmUp();
      session.start();
    }
    void this.#watch?.start();
  }

  /** Finishes the current jobs and leaves. */
  drain(): Promise<Stop[]> {
    return Promise.all(this.#links.map(({ session }) => session.drain()));
  }

  /** Leaves at once. */
  stop(): void {
    for (const { session } of this.#links) session.stop();
  }

  /** Releases threads and runtime. Call it after the end. */
  async close(): Promise<void> {
    await Promise.all([this.#watch?.close(), ...this.#links.map(({ tasks }) => tasks.close())]);
  }

  #link({ url, network }: CoordinatorPlace): Link {
    const { key, folder, timing } = this.#options;
    const watch = this.#watch;
    const coordinator = coordinatorName(url);
    const tasks = new ThreadedTasks(taskThread);
    const standby = this.#options.standby === true ? this.#standby(url, () => session) : undefined;
    const execute = createExecutor({ task: tasks.run, llm: () => (watch?.runtime === undefined ? undefined : watch) });
    const session: WorkerSession = new WorkerSession({
      url,
      WebSocket: this.#options.WebSocket ?? ReasonedSocket,
      signer: seedSigner(key),
      profile: this.#profile(standby),
      shelf: new ResultFile(join(folder, `worker-${workerId(url, key.publicKey)}.results.json`)),
      onNote: (note) => {
        if (note.type === "job_started" && note.job_type === "LLM_INFER") this.#share.taken(session);
        if (note.type === "online" || note.type === "offline" || note.type === "stopped") standby?.connected(note.type === "online");
        this.#options.onNote({ ...note, coordinator });
      },
      onRunEnd: () => this.#share.freed(session),
      ...(network !== undefined && { network }),
      ...(timing !== undefined && { timing }),
      execute: async (run, hooks) => {
        if (run.jobType === "TASK") return execute(run, hooks);
        this.#answering++;
        try {
          return await execute(run, hooks);
        } finally {
          this.#answering--;
        }
      },
    });
    return { session, tasks, standby };
  }

  #standby(url: string, session: () => WorkerSession): Standby {
    const coordinator = coordinatorName(url);
    const standby: Standby = new Standby({
      url: `${new URL(url).protocol === "wss:" ? "https" : "http"}://${coordinator}/v1/models`,
      isCounted: () => this.#offersLlm(standby),
      onChange: (standsBack) => {
        // A running job continues; only later jobs are affected [WS3].
        session().announce(this.#profile(standby));
        this.#options.onNote({ type: "standby", llm: standsBack ? "left" : "taken", coordinator });
      },
    });
    return standby;
  }

  #runtimeChanged(note: RuntimeNote): void {
    this.#options.onNote(note);
    if (note.type === "runtime_missing") return;
    for (const { session, standby } of this.#links) session.announce(this.#profile(standby));
  }

  #offersLlm(standby: Standby | undefined): boolean {
    return this.#watch?.runtime !== undefined && standby?.standsBack !== true;
  }

  #profile(standby: Standby | undefined): Profile {
    const runtime = this.#offersLlm(standby) ? this.#watch?.runtime : undefined;
    const { name, version } = this.#options;
    return {
      providerType: "DESKTOP",
      capabilities: runtime === undefined ? ["TASK"] : ["LLM_INFER", "TASK"],
      // Only the model that answers, because a client that asks for a model by name must get that model [JB10].
      models: runtime === undefined ? [] : announcedNames(runtime),
      ...(runtime?.contextTokens !== undefined && { context: runtime.contextTokens }),
      engine: runtime === undefined ? ENGINE : `${runtime.name}, ${ENGINE}`,
      ...(name !== undefined && { name }),
      ...(version !== undefined && { version }),
    };
  }
}

// The compiler rewrites the ending of imports, but not of a URL.
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./task-thread.ts" : "./task-thread.js", import.meta.url);

/** Starts a thread for tasks. It does not keep the process alive. */
export function taskThread({ onAnswer, onLost }: ThreadHooks): TaskThread {
  const thread = new Worker(THREAD);
  thread.unref();
  // An `error` event without a listener would end the process.
  thread.on("message", onAnswer).on("error", onLost).on("exit", onLost);
  return { post: (call) => thread.postMessage(call), end: () => thread.terminate() };
}

const Content = z.object({
  version: z.literal(1),
  results: z.array(z.object({ jobId: z.string(), attempt: z.int().min(1), frame: z.string(), completedAt: z.number() })),
});

/**
 * A shelf in a file. Results survive a restart and kill -9, but not a power cut; then the coordinator runs the job again. The file exists only while there are
 * results, only its owner can read it, and it is replaced in one step.
 */
export class ResultFile implements ResultShelf {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  load(): readonly KeptResult[] {
    try {
      return withinBounds(Content.parse(JSON.parse(readFileSync(this.#file, "utf8"))).results);
    } catch {
      // Without a usable file the coordinator gives the job to another worker.
      return [];
    }
  }

  save(results: readonly KeptResult[]): void {
    if (results.length === 0) return rmSync(this.#file, { force: true });
    // Only one process has the lock, so a fixed name for the draft is enough, and no drafts accumulate.
    replaceFile(this.#file, JSON.stringify({ version: 1, results }));
  }
}
