// DesktopWorker: one session per coordinator, one LLM for all of them, and a thread for the tasks. On a job's way: the run on a computer.
import { join } from "node:path";
import type { KeyPair } from "../../receipt/ed25519.ts";
import { ENGINE } from "../../tasks/index.ts";
import type { Found } from "../runtimes/probe.ts";
import { createExecutor, type Profile, seedSigner, type SessionNote, type SessionTiming, type Socket, type Stop, WorkerSession } from "../session/index.ts";
import { ReasonedSocket } from "./connect-reason.ts";
import { ResultFile } from "./result-file.ts";
import { type RuntimeNote, RuntimeShare, RuntimeWatch } from "./runtime-watch.ts";
import { Standby } from "./standby.ts";
import { ThreadedTasks } from "./threaded-tasks.ts";
import { workerId } from "./worker-lock.ts";

/** Everything that a desktop worker tells its owner. A note of a session has the name of its coordinator. */
export type WorkerNote = ((SessionNote | StandbyNote) & { coordinator: string }) | RuntimeNote;

/** What a standby worker does about LLM jobs: it leaves them to other workers, or takes them itself. */
export type StandbyNote = { type: "standby"; llm: "left" | "taken" };

/** A coordinator to work for. */
export type CoordinatorPlace = {
  /** `ws:` or `wss:` URL. */
  url: string;
  /** CAIP-2 id; the worker leaves if the coordinator serves another network. */
  network?: string;
};

/** Options of a desktop worker. */
export type DesktopOptions = {
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
    const tasks = new ThreadedTasks();
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
      models: runtime === undefined ? [] : [runtime.model],
      ...(runtime?.contextTokens !== undefined && { context: runtime.contextTokens }),
      engine: runtime === undefined ? ENGINE : `${runtime.name}, ${ENGINE}`,
      ...(name !== undefined && { name }),
      ...(version !== undefined && { version }),
    };
  }
}
