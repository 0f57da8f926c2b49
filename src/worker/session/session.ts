// WorkerSession, the shell around `reduce`: it owns socket, timer, clock and runs. Terminal and browser workers run their jobs with it.
import { isoTime } from "../../protocol/text.ts";
import type { ResultShelf } from "./delivery.ts";
import { type Execution, type Executor, seal, type Signer } from "./executor.ts";
import type { Profile } from "./frames.ts";
import { nextDue, reduce } from "./reduce.ts";
import {
  type Effect,
  initialState,
  type ReduceContext,
  type Run,
  SESSION_TIMING,
  type SessionEvent,
  type SessionNote,
  type SessionState,
  type SessionTiming,
  type Stop,
} from "./state.ts";

/** The part of a WebSocket that a session uses. */
export interface Socket {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "message" | "close" | "error", listener: (event: { data?: unknown; code?: number; reason?: string }) => void): void;
}

/** What a session is made of. */
export type SessionOptions = {
  /** `ws:` or `wss:` URL of the coordinator. */
  url: string;
  /** Usually the global one (Node 22 and later, browsers). */
  WebSocket: new (url: string) => Socket;
  signer: Signer;
  profile: Profile;
  execute: Executor;
  /** CAIP-2 id; the worker leaves a coordinator of another network. */
  network?: string;
  /** Storage in which finished results survive this process. */
  shelf?: ResultShelf;
  onNote?: (note: SessionNote) => void;
  /** Called when the last run that has used the runtime has really ended, aborted or not. */
  onRunEnd?: () => void;
  timing?: Partial<SessionTiming>;
  random?: () => number;
};

/**
 * The worker's side of the socket: a thin shell around `reduce`. It owns everything that is not pure (socket, timer, clock, runs), turns each of their events
 * into one event of the state machine, and executes the effects in order.
 */
export class WorkerSession {
  readonly #options: SessionOptions;
  readonly #state: SessionState;
  readonly #ended = Promise.withResolvers<Stop>();
  #socket: Socket | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #run: { jobId: string; attempt: number; abort: AbortController } | null = null;
  /** The run that has not really ended yet, aborted or not. */
  #unsettled: Promise<void> | null = null;
  /** The last run that has used the runtime. */
  #llmRun: Run | null = null;

  /** @throws TypeError if `url` is not a URL; or what the shelf throws if it cannot be read */
  constructor(options: SessionOptions) {
    this.#options = options;
    const { signer, profile, network, shelf } = options;
    const timing = { ...SESSION_TIMING, ...options.timing };
    const fixed = { timing, publicKey: signer.publicKey, host: new URL(options.url).host, network: network ?? null, profile };
    this.#state = initialState(fixed, shelf?.load() ?? [], { now: now(), wall: Date.now() });
  }

  /** Resolves when the session has ended for good, with the reason. */
  get ended(): Promise<Stop> {
    return this.#ended.promise;
  }

  start(): void {
    this.#apply({ type: "start" });
  }

  /** Changes what the worker can do, and announces it at once if the worker is registered. */
  announce(profile: Profile): void {
    this.#apply({ type: "announce", profile });
  }

  /** Another session has taken or released the LLM runtime. */
  runtimeTaken(taken: boolean): void {
    this.#apply({ type: "runtime", taken });
  }

  /** True while an assigned LLM job waits for the runtime. */
  get waits(): boolean {
    return this.#state.waiting !== null;
  }

  /** Call it when the network is back or the machine was asleep: a waiting session connects now, and an open link is checked. */
  nudge(): void {
    this.#apply({ type: "nudge" });
  }

  /** Takes no new job, finishes the current one, delivers its result, and ends [WS11]. */
  drain(): Promise<Stop> {
    this.#apply({ type: "drain" });
    return this.ended;
  }

  /** Ends at once and aborts a running job. */
  stop(): void {
    this.#apply({ type: "stop" });
  }

  #apply(event: SessionEvent): void {
    const ctx: ReduceContext = { now: now(), wall: Date.now(), random: this.#options.random ?? Math.random, effects: [] };
    reduce(this.#state, event, ctx);
    for (const effect of ctx.effects) this.#carryOut(effect);
    clearTimeout(this.#timer);
    const due = nextDue(this.#state);
    if (Number.isFinite(due)) this.#timer = setTimeout(() => this.#apply({ type: "time" }), Math.max(0, Math.ceil(due - now())));
    if (this.#state.link.kind === "stopped") this.#ended.resolve(this.#state.link.stop);
  }

  #carryOut(effect: Effect): void {
    switch (effect.type) {
      case "dial":
        return this.#dial(effect.conn);
      case "send":
        return this.#socket?.send(effect.text);
      case "close":
        this.#socket?.close(effect.code, effect.reason);
        this.#socket = null;
        return;
      case "sign":
        void this.#sign(effect.conn, effect.text);
        return;
      case "run":
        this.#start(effect.run);
        return;
      case "abort":
        if (this.#run?.jobId !== effect.jobId || this.#run.attempt !== effect.attempt) return;
        return this.#run.abort.abort(effect.timedOut ? new DOMException("no sign of life for too long", "TimeoutError") : undefined);
      case "keep":
        return this.#keep(effect);
      case "note":
        return this.#options.onNote?.(effect.note);
      default:
        return effect satisfies never;
    }
  }

  #dial(conn: number): void {
    let socket: Socket;
    try {
      socket = new this.#options.WebSocket(this.#options.url);
    } catch {
      queueMicrotask(() => this.#apply({ type: "closed", conn, code: 1006, reason: "cannot dial" }));
      return;
    }
    this.#socket = socket;
    socket.addEventListener("open", () => this.#apply({ type: "opened", conn }));
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") this.#apply({ type: "frame", conn, text: data });
    });
    socket.addEventListener("close", ({ code, reason }) => this.#apply({ type: "closed", conn, code: code ?? 1006, reason: reason ?? "" }));
    // `close` always follows, with more details.
    socket.addEventListener("error", () => {});
  }

  async #sign(conn: number, text: string): Promise<void> {
    try {
      this.#apply({ type: "signed", conn, signature: await this.#options.signer.sign(text) });
    } catch {
      // Without a signature the registration times out, and the session tries again.
      this.#options.onNote?.({ type: "warning", code: "cannot_sign", message: "the worker's key cannot sign" });
    }
  }

  #start(run: Run): void {
    const abort = new AbortController();
    this.#run = { jobId: run.jobId, attempt: run.attempt, abort };
    if (run.jobType === "LLM_INFER") this.#llmRun = run;
    const ended = this.#runToEnd(run, abort.signal, this.#unsettled).finally(() => {
      if (this.#unsettled === ended) this.#unsettled = null;
      // If a later LLM job of this session has begun, the runtime is still taken.
      if (this.#llmRun === run) this.#options.onRunEnd?.();
    });
    this.#unsettled = ended;
  }

  async #runToEnd(run: Run, signal: AbortSignal, before: Promise<void> | null): Promise<void> {
    // One job at a time: an aborted run gets a moment to end.
    if (before !== null) await Promise.race([before, later(this.#state.timing.settle)]);
    if (signal.aborted) return;
    const { jobId, attempt } = run;
    const onProgress = (delta: string) => this.#apply({ type: "progress", jobId, attempt, delta });
    const execution = await this.#options.execute(run, { signal, onProgress });
    if (signal.aborted) return;
    this.#apply(await this.#outcome(run, execution));
  }

  async #outcome({ jobId, attempt }: Run, execution: Execution): Promise<SessionEvent> {
    if (!execution.ok) return { type: "failed", jobId, attempt, error: execution.error, message: execution.message, retryable: execution.retryable };
    const completedAt = Date.now();
    try {
      const sealed = await seal(this.#options.signer, { jobId, attempt }, execution.output, isoTime(completedAt));
      if (sealed.ok) return { type: "completed", result: { jobId, attempt, frame: sealed.frame, completedAt }, tokens: execution.tokens };
      return { type: "failed", jobId, attempt, error: sealed.error, message: sealed.message, retryable: false };
    } catch {
      return { type: "failed", jobId, attempt, error: "worker_error", message: "the result could not be signed", retryable: true };
    }
  }

  #keep({ results }: Extract<Effect, { type: "keep" }>): void {
    try {
      this.#options.shelf?.save(results);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : "unknown error";
      this.#options.onNote?.({ type: "warning", code: "cannot_keep", message: `finished results cannot be stored, so a restart would lose them: ${why}` });
    }
  }
}

/** Milliseconds of a monotonic clock. */
function now(): number {
  return performance.now();
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
