import { join } from "node:path";
import type { KeyPair } from "../../receipt/ed25519.ts";
import type { Found } from "../runtimes/probe.ts";
import { createExecutor, type Profile, seedSigner, type SessionNote, type SessionTiming, type Socket, type Stop, WorkerSession } from "../session/index.ts";
import { ENGINE } from "../tasks/engine.ts";
import { ResultFile } from "./result-file.ts";
import { type RuntimeNote, RuntimeWatch } from "./runtime-watch.ts";
import { ThreadedTasks } from "./threaded-tasks.ts";
import { workerId } from "./worker-lock.ts";

/** Everything that a desktop worker tells. */
export type WorkerNote = SessionNote | RuntimeNote;

/** What a desktop worker is made of. */
export type DesktopOptions = {
  /** `ws:` or `wss:` URL of the coordinator. */
  url: string;
  key: KeyPair;
  /** Folder of the kept results. */
  folder: string;
  /** Looks for an LLM; left out: TASK only. */
  findRuntime?: (signal: AbortSignal) => Promise<Found>;
  network?: string;
  name?: string;
  version?: string;
  onNote: (note: WorkerNote) => void;
  timing?: Partial<SessionTiming>;
  WebSocket?: new (url: string) => Socket;
};

/** A worker on a computer of its own: TASK by the built-in logic in a thread, LLM_INFER by whatever runtime this machine has [SPEC]. */
export class DesktopWorker {
  readonly #options: DesktopOptions;
  readonly #tasks = new ThreadedTasks();
  readonly #watch: RuntimeWatch | undefined;
  readonly #session: WorkerSession;
  #running = 0;

  constructor(options: DesktopOptions) {
    this.#options = options;
    const { findRuntime } = options;
    if (findRuntime !== undefined) {
      this.#watch = new RuntimeWatch({ find: findRuntime, isBusy: () => this.#running > 0, onNote: (note) => this.#runtimeChanged(note) });
    }
    const watch = this.#watch;
    const execute = createExecutor({ task: this.#tasks.run, llm: () => (watch?.runtime === undefined ? undefined : watch) });
    this.#session = new WorkerSession({
      url: options.url,
      WebSocket: options.WebSocket ?? globalThis.WebSocket,
      signer: seedSigner(options.key),
      profile: this.#profile(),
      shelf: new ResultFile(join(options.folder, `worker-${workerId(options.url, options.key.publicKey)}.results.json`)),
      onNote: options.onNote,
      ...(options.network !== undefined && { network: options.network }),
      ...(options.timing !== undefined && { timing: options.timing }),
      execute: async (run, hooks) => {
        this.#running++;
        try {
          return await execute(run, hooks);
        } finally {
          this.#running--;
        }
      },
    });
  }

  /** Resolves when the worker has ended for good. */
  get ended(): Promise<Stop> {
    return this.#session.ended;
  }

  /** Goes online for TASK at once, and for LLM_INFER as soon as a runtime has answered. */
  start(): void {
    this.#tasks.warmUp();
    this.#session.start();
    void this.#watch?.start();
  }

  /** Finishes the present job and leaves. */
  drain(): Promise<Stop> {
    return this.#session.drain();
  }

  /** Leaves at once. */
  stop(): void {
    this.#session.stop();
  }

  /** Frees thread and runtime; for after the end. */
  async close(): Promise<void> {
    await Promise.all([this.#watch?.close(), this.#tasks.close()]);
  }

  #runtimeChanged(note: RuntimeNote): void {
    this.#options.onNote(note);
    if (note.type !== "runtime_missing") this.#session.announce(this.#profile());
  }

  #profile(): Profile {
    const runtime = this.#watch?.runtime;
    const { name, version } = this.#options;
    return {
      providerType: "DESKTOP",
      capabilities: runtime === undefined ? ["TASK"] : ["LLM_INFER", "TASK"],
      // The one that answers comes first.
      models: runtime === undefined ? [] : [runtime.model, ...runtime.models.filter((model) => model !== runtime.model)],
      engine: runtime === undefined ? ENGINE : `${runtime.name}, ${ENGINE}`,
      ...(name !== undefined && { name }),
      ...(version !== undefined && { version }),
    };
  }
}
