import { setTimeout as delay } from "node:timers/promises";
import type { Found } from "../runtimes/probe.ts";
import { type GenerateOptions, type Generation, type Runtime, RuntimeError } from "../runtimes/runtime.ts";

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
