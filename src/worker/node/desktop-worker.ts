import { join } from "node:path";
import type { KeyPair } from "../../receipt/ed25519.ts";
import type { Found } from "../runtimes/probe.ts";
import { createExecutor, type Profile, seedSigner, type SessionNote, type SessionTiming, type Socket, type Stop, WorkerSession } from "../session/index.ts";
import { ENGINE } from "../../tasks/index.ts";
import { ReasonedSocket } from "./connect-reason.ts";
import { ResultFile } from "./result-file.ts";
import { type RuntimeNote, RuntimeShare, RuntimeWatch } from "./runtime-watch.ts";

import { Standby } from "./standby.ts";
import { ThreadedTasks } from "./threaded-tasks.ts";
import { workerId } from "./worker-lock.ts";

/** Everything that a desktop worker tells; what a session tells carries the name of its coordinator. */
export type WorkerNote = ((SessionNote | StandbyNote) & { coordinator: string }) | RuntimeNote;

/** What a standby worker does about LLM jobs: leaves them to the other workers that take them, or takes them itself. */
export type StandbyNote = { type: "standby"; llm: "left" | "taken" };

/** Who to work for. */
export type CoordinatorPlace = {
  /** `ws:` or `wss:` URL. */
  url: string;
  /** CAIP-2 id of the only network to work for there. */
  network?: string;
};

/** What a desktop worker is made of. */
export type DesktopOptions = {
  /** At least one, and none twice. */
  coordinators: readonly CoordinatorPlace[];
  key: KeyPair;
  /** Folder of the kept results. */
  folder: string;
  /** Looks for an LLM; left out: TASK only. */
  findRuntime?: (signal: AbortSignal) => Promise<Found>;
  /** Take LLM jobs only while no other worker of the coordinator does. */
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
 * A worker on a computer of its own: TASK by the built-in logic in a thread, LLM_INFER by whatever runtime this machine has [SPEC]. It may work
 * for several coordinators, with one key: one job at a time for each, and one LLM job at a time for all of them.
 */
export class DesktopWorker {
  readonly #options: DesktopOptions;
  readonly #watch: RuntimeWatch | undefined;
  readonly #share = new RuntimeShare();
  readonly #links: readonly Link[];
  /** LLM jobs that run. */
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

  /** Resolves when every session has ended for good, in the order of the coordinators. */
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

  /** Finishes the present jobs and leaves. */
  drain(): Promise<Stop[]> {
    return Promise.all(this.#links.map(({ session }) => session.drain()));
  }

  /** Leaves at once. */
  stop(): void {
    for (const { session } of this.#links) session.stop();
  }

  /** Frees threads and runtime; for after the end. */
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
        // A job that runs is finished: this changes only what comes next [WS3].
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
      // Only the one that answers: whoever asks for a model by its name must get that one [JB10].
      models: runtime === undefined ? [] : [runtime.model],
      ...(runtime?.contextTokens !== undefined && { context: runtime.contextTokens }),
      engine: runtime === undefined ? ENGINE : `${runtime.name}, ${ENGINE}`,
      ...(name !== undefined && { name }),
      ...(version !== undefined && { version }),
    };
  }
}
