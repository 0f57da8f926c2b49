// The bench of the session tests: the state machine with a clock that the test moves.
import { keyPair } from "../../../../src/receipt/ed25519.ts";
import type { Profile } from "../../../../src/worker/session/frames.ts";
import { nextDue, reduce } from "../../../../src/worker/session/reduce.ts";
import {
  type Effect,
  initialState,
  type KeptResult,
  SESSION_TIMING,
  type SessionEvent,
  type SessionNote,
  type SessionState,
  type ReduceContext,
} from "../../../../src/worker/session/state.ts";

export const KEY = keyPair(new Uint8Array(32).fill(7));
export const HOST = "127.0.0.1:4010";
export const NETWORK = "eip155:10143";
export const PROFILE: Profile = { providerType: "DESKTOP", capabilities: ["LLM_INFER", "TASK"], models: ["tiny"] };
/** The wall clock when the session's own clock shows 0. */
const WALL = Date.parse("2026-11-21T00:00:00.000Z");

type Frame = Record<string, unknown>;
type Options = { profile?: Profile; network?: string; kept?: KeptResult[]; random?: number };

/** The state machine with a clock that is turned by hand. */
export class SessionBench {
  readonly state: SessionState;
  now = 0;
  /** What the wall clock is ahead by because the machine slept. */
  slept = 0;
  /** The same of the coordinator's clock. */
  coordinatorSlept = 0;
  random: number;
  readonly effects: Effect[] = [];

  constructor({ profile = PROFILE, network, kept = [], random = 0.5 }: Options = {}) {
    this.random = random;
    const fixed = { timing: SESSION_TIMING, publicKey: KEY.publicKey, host: HOST, network: network ?? null, profile };
    this.state = initialState(fixed, kept, { now: 0, wall: WALL });
  }

  get wall(): number {
    return WALL + this.now + this.slept;
  }

  /** What the coordinator's clock shows, as it says it. */
  get coordinatorTime(): string {
    return new Date(WALL + this.now + this.coordinatorSlept).toISOString();
  }

  get conn(): number {
    return this.state.nextConn - 1;
  }

  apply(event: SessionEvent): Effect[] {
    const ctx: ReduceContext = { now: this.now, wall: this.wall, random: () => this.random, effects: [] };
    reduce(this.state, event, ctx);
    this.effects.push(...ctx.effects);
    return ctx.effects;
  }

  /** Turns the clock, stopping wherever the session wants to be woken. Answers heartbeats unless told not to. */
  pass(ms: number, { acks = true } = {}): Effect[] {
    const first = this.effects.length;
    const end = this.now + ms;
    for (let due = nextDue(this.state); due <= end; due = nextDue(this.state)) {
      this.now = Math.max(this.now, due);
      const beats = this.apply({ type: "time" }).some((effect) => effect.type === "send" && effect.text === '{"type":"heartbeat"}');
      if (beats && acks) this.receive({ type: "heartbeat_ack" });
    }
    this.now = end;
    return this.effects.slice(first);
  }

  receive(frame: Frame | string): Effect[] {
    return this.apply({ type: "frame", conn: this.conn, text: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }

  close(code: number, reason = ""): Effect[] {
    return this.apply({ type: "closed", conn: this.conn, code, reason });
  }

  open(): void {
    this.apply({ type: "opened", conn: this.conn });
  }

  challenge(host = HOST, network = NETWORK): Effect[] {
    return this.receive({ type: "challenge", nonce: "ab".repeat(32), network, host });
  }

  /** From nothing to registered, as with a coordinator of ours. */
  goOnline(more: Frame = {}): Effect[] {
    if (this.state.link.kind === "idle") this.apply({ type: "start" });
    this.open();
    this.challenge();
    this.apply({ type: "signed", conn: this.conn, signature: "sig" });
    return this.receive({ type: "register_ack", status: "ok", worker_id: "w", authenticated: true, tier: "Verified", heartbeat_interval_ms: 10_000, ...more });
  }

  assign(jobId = "job-1", over: Frame = {}): Effect[] {
    const payload = { job_type: "TASK", task_type: "classify", input: "good" };
    return this.receive({
      type: "job_assign",
      job_id: jobId,
      job_type: "TASK",
      payload,
      policy: "CHEAP",
      privacy_class: "PUBLIC",
      attempt: 1,
      deadline: this.deadline(),
      ...over,
    });
  }

  assignLlm(jobId = "job-1", over: Frame = {}): Effect[] {
    return this.assign(jobId, { job_type: "LLM_INFER", payload: { prompt: "hello" }, ...over });
  }

  deadline(ms = 170_000): string {
    return new Date(this.wall + ms).toISOString();
  }

  complete(jobId = "job-1", attempt = 1): Effect[] {
    return this.apply({ type: "completed", result: this.result(jobId, attempt), tokens: null });
  }

  result(jobId = "job-1", attempt = 1): KeptResult {
    return { jobId, attempt, frame: JSON.stringify({ type: "job_complete", job_id: jobId, attempt }), completedAt: this.wall };
  }
}

/** The frames that were sent, parsed. */
export function sent(effects: readonly Effect[]): Frame[] {
  return effects.flatMap((effect): Frame[] => (effect.type === "send" ? [JSON.parse(effect.text)] : []));
}

/** The notes for the owner. */
export function notes(effects: readonly Effect[]): SessionNote[] {
  return effects.flatMap((effect) => (effect.type === "note" ? [effect.note] : []));
}

/** The kinds of the effects that are neither frames nor notes. */
export function deeds(effects: readonly Effect[]): string[] {
  return effects.flatMap((effect) => (effect.type === "send" || effect.type === "note" ? [] : [effect.type]));
}
