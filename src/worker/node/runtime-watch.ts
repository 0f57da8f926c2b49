// Watches the LLM of this machine, announces when it comes and goes, and shares it among the sessions of a worker. Every LLM_INFER runs through it.
import { setTimeout as delay } from "node:timers/promises";
import { installEmbedded, isEmbeddedInstalled } from "../runtimes/embedded-install.ts";
import { Embedded, type EmbeddedOptions } from "../runtimes/embedded.ts";
import { findRuntime, type Found } from "../runtimes/probe.ts";
import { type GenerateOptions, type Generation, namingProblem, type Runtime, RuntimeError } from "../runtimes/runtime.ts";

/** How often the watch checks for a runtime. */
const INTERVAL_MS = 30_000;
/** The pause before the first check for a lost runtime, which may come back soon. Each next pause is twice as long. */
const COMEBACK_MS = 2_000;
/** How long the report of a failed job waits for the check whether the runtime still works. */
const SUSPICION_MS = 500;
/** How long the first answer may take, because the model may have to be loaded from a slow disk. */
const WARM_UP_MS = 180_000;
/** After this time without a sign of life a cancelled job counts as one that timed out: many seekers have less patience than the coordinator. */
const SILENT_MS = 20_000;
/** Failed checks in a row after which a runtime counts as lost. A busy runtime may answer late once. */
const MISSES = 2;
/**
 * Failed jobs in a row after which a runtime counts as lost, even if it still lists its model. Ollama does this when it
 * has no memory for the model. All attempts of one job count once, because the job may be to blame.
 */
const FAILURES = 2;

/** What a watch tells the owner. */
export type RuntimeNote =
  /** `hint`: what the owner should change about the model. */
  | { type: "runtime_ready"; runtime: string; model: string; hint?: string }
  | { type: "runtime_lost"; runtime: string; model: string }
  | { type: "runtime_missing"; hint: string; tried: { name: string; url: string; why: string }[] };

type WatchOptions = {
  find: (signal: AbortSignal) => Promise<Found>;
  onNote: (note: RuntimeNote) => void;
  /** True while a job runs. The watch does not check the runtime then. */
  isBusy: () => boolean;
  intervalMs?: number;
  comebackMs?: number;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
};

/** Watches the LLM of this machine: announces it after its first answer, and notices when it is lost and when it is back. */
export class RuntimeWatch {
  readonly #options: WatchOptions;
  readonly #over = new AbortController();
  #runtime: Runtime | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #misses = 0;
  /** Jobs in a row that the runtime has failed, whatever their prompts were. A prompt without a job counts as one of its own. */
  readonly #failed = new Set<string | symbol>();
  #saidMissing = false;
  #looking = false;
  /** True after a job failed on the runtime. */
  #suspected = false;
  /** Milliseconds until the next check, while a lost runtime may come back. */
  #comeback: number | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** The runtime that works now. */
  get runtime(): Runtime | undefined {
    return this.#runtime;
  }

  /** Checks now and then regularly. Resolves after the first check. */
  async start(): Promise<void> {
    await this.#look();
    this.#plan();
  }

  /** Generates, and notices if the runtime is lost. */
  async generate(prompt: string, options: GenerateOptions): Promise<Generation> {
    const runtime = this.#runtime;
    if (runtime === undefined) throw new RuntimeError("runtime_unreachable", "the LLM runtime is no longer available");
    const now = this.#options.now ?? (() => performance.now());
    let heardAt = now();
    const onActivity = (): void => {
      heardAt = now();
      options.onActivity?.();
    };
    try {
      const generation = await runtime.generate(prompt, { ...options, onActivity });
      this.#failed.clear();
      return generation;
    } catch (error) {
      if (error instanceof RuntimeError && this.#runtime === runtime) {
        // A runtime that hangs would make the next jobs time out, or their users would cancel them and be charged. A
        // broken runtime would fail each job. It is announced again when it, or the child process that replaces it, has
        // answered a prompt.
        const isSilent = error.code === "aborted" && (isTimeout(options.signal.reason) || now() - heardAt >= SILENT_MS);
        if (error.code === "runtime_error" && error.retryable && !error.answered) this.#failed.add(options.jobId ?? Symbol());
        if (isSilent || this.#failed.size >= FAILURES || error.code === "runtime_unreachable" || error.code === "model_missing") await this.#lose();
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

  /** Checks a runtime that may have died during an answer. A loss must be announced before the failure, because after the failure the next job may come. */
  async #suspect(): Promise<void> {
    this.#suspected = true;
    await Promise.race([this.start(), delay(SUSPICION_MS, undefined, { ref: false })]);
  }

  /** True while the runtime works on a job. */
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
      // The search starts another one in its place, with the same name and model.
      if (this.#runtime?.hasEnded === true) await this.#lose();
      const found = await this.#options.find(signal);
      if (!found.ok) return await this.#missed(found);
      this.#misses = 0;
      this.#suspected = false;
      const { runtime } = found;
      if (this.#runtime === runtime) return;
      const isSame = this.#runtime?.name === runtime.name && this.#runtime.model === runtime.model && this.#runtime.listedContext === runtime.listedContext;
      if (isSame && String(this.#runtime?.models) === String(runtime.models)) return await runtime.close();
      if (!isSame) await this.#warmUp(runtime);
      // A job may have started in the meantime. The next check is early enough.
      if (signal.aborted || this.#isBusy()) return await runtime.close();
      if (isSame && this.#runtime !== undefined) runtime.succeed?.(this.#runtime);
      await this.#runtime?.close();
      this.#runtime = runtime;
      this.#failed.clear();
      this.#saidMissing = false;
      this.#comeback = undefined;
      const hint = namingProblem(runtime);
      this.#options.onNote({ type: "runtime_ready", runtime: runtime.name, model: runtime.model, ...(hint !== null && { hint }) });
    } catch (error) {
      if (signal.aborted) return;
      const why = error instanceof Error ? error.message : "unexpected error";
      await this.#missed({ ok: false, tried: [], hint: `the runtime did not answer its first prompt: ${why}` });
    }
  }

  /** Waits for the first answer. A runtime that gives none is closed, because a child process that hangs would be found again. */
  async #warmUp(runtime: Runtime): Promise<void> {
    try {
      await runtime.warmUp(AbortSignal.any([this.#over.signal, AbortSignal.timeout(WARM_UP_MS)]));
    } catch (error) {
      await runtime.close();
      throw error;
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
    // A running check plans the next one itself.
    if (!this.#looking) this.#plan();
    this.#options.onNote({ type: "runtime_lost", runtime: runtime.name, model: runtime.model });
    await runtime.close();
  }
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}

/** The part of a session that shares the runtime. */
interface Sharer {
  /** Tells it that another session has taken or released the runtime. */
  runtimeTaken(taken: boolean): void;
  /** True while it has a job that waits for the runtime. */
  readonly waits: boolean;
}

/** Lets one session at a time use the LLM, in turn. Two answers at the same time would each take twice as long, and both could be late. */
export class RuntimeShare {
  #sharers: readonly Sharer[] = [];
  #user: Sharer | null = null;

  /** Sets the sessions that share. Call it before any of them starts. */
  among(sharers: readonly Sharer[]): void {
    this.#sharers = sharers;
  }

  /** A session has started an LLM job. */
  taken(by: Sharer): void {
    this.#user = by;
    for (const other of this.#sharers) if (other !== by) other.runtimeTaken(true);
  }

  /** The run of a session has really ended. Sessions with a waiting job come first, in order after the one that just had the runtime. */
  freed(by: Sharer): void {
    if (this.#user !== by) return;
    this.#user = null;
    const at = this.#sharers.indexOf(by);
    const inTurn = [...this.#sharers.slice(at + 1), ...this.#sharers.slice(0, at + 1)];
    for (const sharer of [...inTurn.filter(({ waits }) => waits), ...inTurn]) if (this.#isFree()) sharer.runtimeTaken(false);
  }

  // A method, because a session may take the runtime as soon as it hears that it is free.
  #isFree(): boolean {
    return this.#user === null;
  }
}

/** The LLM that the owner wants, and the most tokens of one answer. */
export type LlmWish = (
  | { kind: "found"; llmUrl?: string; model?: string }
  /** llama.cpp in a child process; without `modelFile` the very small model of this package. */
  | { kind: "embedded"; modelFile?: string }
) & { maxTokens?: number };

/** Makes the function with which a worker searches for its LLM. `onProgress` gets lines for a person while the embedded runtime is installed. */
export function llmFinder(wish: LlmWish, onProgress: (line: string) => void): (signal: AbortSignal) => Promise<Found> {
  const limit = wish.maxTokens === undefined ? {} : { maxTokens: wish.maxTokens };
  if (wish.kind === "embedded") return embeddedFinder({ ...limit, ...(wish.modelFile !== undefined && { modelPath: wish.modelFile }) }, onProgress);
  const { llmUrl, model } = wish;
  return (signal) => findRuntime({ env: process.env, signal, ...limit, ...(llmUrl !== undefined && { llmUrl }), ...(model !== undefined && { model }) });
}

function embeddedFinder(options: EmbeddedOptions, onProgress: (line: string) => void): (signal: AbortSignal) => Promise<Found> {
  let present: Embedded | undefined;
  return async (signal) => {
    if (present?.hasEnded === false) return { ok: true, runtime: present };
    // One that is being closed has its model in memory until its process ends.
    await present?.close();
    if (!isEmbeddedInstalled()) {
      const installed = await installEmbedded(onProgress, { signal });
      if (!installed.ok) return { ok: false, tried: [], hint: installed.message };
    }
    present = await Embedded.start({ ...options, signal });
    return { ok: true, runtime: present };
  };
}

/** True if the first search would install the embedded runtime. */
export function needsInstall(wish: LlmWish): boolean {
  return wish.kind === "embedded" && !isEmbeddedInstalled();
}
