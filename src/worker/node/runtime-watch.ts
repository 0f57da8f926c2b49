import { setTimeout as delay } from "node:timers/promises";
import { findRuntime, type Found } from "../runtimes/probe.ts";
import { type GenerateOptions, type Generation, type Runtime, RuntimeError } from "../runtimes/runtime.ts";
import { Embedded, type EmbeddedOptions } from "../runtimes/embedded.ts";
import { installEmbedded, isEmbeddedInstalled } from "../runtimes/embedded-install.ts";

/** How often a runtime is looked for, or looked after. */
const INTERVAL_MS = 30_000;
/** One that is gone may be on its way back: the first look comes after this, the next ones after twice as long each time. */
const COMEBACK_MS = 2_000;
/** A job failed: so long it waits to be told, until it is known whether the runtime is still there. */
const SUSPICION_MS = 500;
/** The first answer of a model that has to be loaded from a slow disk. */
const WARM_UP_MS = 180_000;
/** Misses in a row after which a runtime counts as gone; a busy one may be late once. */
const MISSES = 2;

/** What a watch tells. */
export type RuntimeNote =
  | { type: "runtime_ready"; runtime: string; model: string }
  | { type: "runtime_lost"; runtime: string; model: string }
  | { type: "runtime_missing"; hint: string; tried: { name: string; url: string; why: string }[] };

export type WatchOptions = {
  find: (signal: AbortSignal) => Promise<Found>;
  onNote: (note: RuntimeNote) => void;
  /** Whether a job runs: then the runtime is left in peace. */
  isBusy: () => boolean;
  intervalMs?: number;
  comebackMs?: number;
};

/** Keeps an eye on the machine's LLM: announces it when it has answered once, notices when it goes and when it comes back. */
export class RuntimeWatch {
  readonly #options: WatchOptions;
  readonly #over = new AbortController();
  #runtime: Runtime | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #misses = 0;
  #saidMissing = false;
  #looking = false;
  /** A job failed on it. */
  #suspected = false;
  /** Milliseconds until the next look, while one that is gone may come back. */
  #comeback: number | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** The runtime that answers now. */
  get runtime(): Runtime | undefined {
    return this.#runtime;
  }

  /** Looks now, and from then on. Resolves after the first look. */
  async start(): Promise<void> {
    await this.#look();
    this.#plan();
  }

  /** Generates, and notices when the runtime is gone. */
  async generate(prompt: string, options: GenerateOptions): Promise<Generation> {
    const runtime = this.#runtime;
    if (runtime === undefined) throw new RuntimeError("runtime_unreachable", "the LLM runtime is gone");
    try {
      return await runtime.generate(prompt, options);
    } catch (error) {
      if (error instanceof RuntimeError && this.#runtime === runtime) {
        if (error.code === "runtime_unreachable" || error.code === "model_missing") await this.#lose();
        else if (error.code === "runtime_error") await this.#suspect();
      }
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#over.abort();
    clearTimeout(this.#timer);
    await this.#runtime?.close();
    this.#runtime = undefined;
  }

  #plan(): void {
    clearTimeout(this.#timer);
    if (this.#over.signal.aborted) return;
    this.#timer = setTimeout(() => void this.start(), this.#pause());
    this.#timer.unref();
  }

  #pause(): number {
    const usual = this.#options.intervalMs ?? INTERVAL_MS;
    if (this.#comeback === undefined || this.#comeback >= usual) return usual;
    const pause = this.#comeback;
    this.#comeback *= 2;
    return pause;
  }

  /** The runtime may have died in the middle of an answer: whoever has failed is free for the next job, so its loss is told before the failure. */
  async #suspect(): Promise<void> {
    this.#suspected = true;
    await Promise.race([this.start(), delay(SUSPICION_MS, undefined, { ref: false })]);
  }

  /** A runtime that works is left in peace. */
  #isBusy(): boolean {
    return this.#runtime !== undefined && this.#options.isBusy();
  }

  async #look(): Promise<void> {
    if (this.#looking || (this.#isBusy() && !this.#suspected)) return;
    this.#looking = true;
    try {
      await this.#lookNow();
    } finally {
      this.#looking = false;
    }
  }

  async #lookNow(): Promise<void> {
    const { signal } = this.#over;
    try {
      const found = await this.#options.find(signal);
      if (!found.ok) return await this.#missed(found);
      this.#misses = 0;
      this.#suspected = false;
      const { runtime } = found;
      if (this.#runtime === runtime) return;
      const isSame = this.#runtime?.name === runtime.name && this.#runtime.model === runtime.model;
      if (isSame && String(this.#runtime?.models) === String(runtime.models)) return await runtime.close();
      if (!isSame) await runtime.warmUp(AbortSignal.any([signal, AbortSignal.timeout(WARM_UP_MS)]));
      // A job may have begun meanwhile; the next look will do.
      if (signal.aborted || this.#isBusy()) return await runtime.close();
      await this.#runtime?.close();
      this.#runtime = runtime;
      this.#saidMissing = false;
      this.#comeback = undefined;
      this.#options.onNote({ type: "runtime_ready", runtime: runtime.name, model: runtime.model });
    } catch (error) {
      if (signal.aborted) return;
      const why = error instanceof Error ? error.message : "unexpected error";
      await this.#missed({ ok: false, tried: [], hint: `the runtime did not answer a first prompt: ${why}` });
    }
  }

  async #missed(found: Extract<Found, { ok: false }>): Promise<void> {
    this.#misses++;
    if (this.#runtime !== undefined) return this.#misses >= MISSES || this.#suspected ? await this.#lose() : undefined;
    if (this.#saidMissing) return;
    this.#saidMissing = true;
    this.#options.onNote({ type: "runtime_missing", hint: found.hint, tried: found.tried });
  }

  async #lose(): Promise<void> {
    const runtime = this.#runtime;
    if (runtime === undefined) return;
    this.#runtime = undefined;
    this.#suspected = false;
    this.#comeback = this.#options.comebackMs ?? COMEBACK_MS;
    // Whoever looks plans the next look.
    if (!this.#looking) this.#plan();
    this.#options.onNote({ type: "runtime_lost", runtime: runtime.name, model: runtime.model });
    await runtime.close();
  }
}

/** The part of a session that has to do with sharing. */
export interface Sharer {
  /** Tells it that another session has the runtime, or gave it back. */
  runtimeTaken(taken: boolean): void;
  /** Whether it has a job that waits for the runtime. */
  readonly waits: boolean;
}

/** Lets one session at a time use the machine's LLM, in turn: two answers at once would each take twice as long, and both be late. */
export class RuntimeShare {
  #sharers: readonly Sharer[] = [];
  #holder: Sharer | null = null;

  /** Those who share, before any of them starts. */
  among(sharers: readonly Sharer[]): void {
    this.#sharers = sharers;
  }

  /** It has begun an LLM job. */
  taken(by: Sharer): void {
    this.#holder = by;
    for (const other of this.#sharers) if (other !== by) other.runtimeTaken(true);
  }

  /** Its run has really ended. Whoever waits is asked first, beginning after the one that just had it. */
  freed(by: Sharer): void {
    if (this.#holder !== by) return;
    this.#holder = null;
    const at = this.#sharers.indexOf(by);
    const inTurn = [...this.#sharers.slice(at + 1), ...this.#sharers.slice(0, at + 1)];
    for (const sharer of [...inTurn.filter(({ waits }) => waits), ...inTurn]) if (this.#isFree()) sharer.runtimeTaken(false);
  }

  // A method, because the one who is told that it is free may take it at once.
  #isFree(): boolean {
    return this.#holder === null;
  }
}

/** Which LLM a worker's owner wants, and the most tokens that one answer may have. */
export type LlmWish = (
  | { kind: "found"; llmUrl?: string; model?: string }
  /** llama.cpp in a child process; without `modelFile` the very small model of this package. */
  | { kind: "embedded"; modelFile?: string }
) & { maxTokens?: number };

/** What a worker looks for its LLM with, again and again. `onProgress` gets lines for a person while the embedded runtime is installed. */
export function llmFinder(wish: LlmWish, onProgress: (line: string) => void): (signal: AbortSignal) => Promise<Found> {
  const limit = wish.maxTokens === undefined ? {} : { maxTokens: wish.maxTokens };
  if (wish.kind === "embedded") return embeddedFinder({ ...limit, ...(wish.modelFile !== undefined && { modelPath: wish.modelFile }) }, onProgress);
  const { llmUrl, model } = wish;
  return (signal) => findRuntime({ env: process.env, signal, ...limit, ...(llmUrl !== undefined && { llmUrl }), ...(model !== undefined && { model }) });
}

function embeddedFinder(options: EmbeddedOptions, onProgress: (line: string) => void): (signal: AbortSignal) => Promise<Found> {
  let present: Embedded | undefined;
  return async (signal) => {
    if (present !== undefined && isRunning(present.pid)) return { ok: true, runtime: present };
    if (!isEmbeddedInstalled()) {
      const installed = await installEmbedded(onProgress, { signal });
      if (!installed.ok) return { ok: false, tried: [], hint: installed.message };
    }
    present = await Embedded.start({ ...options, signal });
    return { ok: true, runtime: present };
  };
}

function isRunning(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Whether the first look would install something. */
export function needsInstall(wish: LlmWish): boolean {
  return wish.kind === "embedded" && !isEmbeddedInstalled();
}
