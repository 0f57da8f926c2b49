// The events, effects and notes of a worker session: what `reduce` takes, what it asks the shell to do, and what the owner is told.
import type { Tier } from "../../protocol/worker-messages.ts";
import type { Profile } from "./frames.ts";
import type { ClockVerdict, Failure, KeptResult, Proof, Run, SessionState, Stop } from "./state.ts";

/** Everything that can happen to a session. */
export type SessionEvent =
  | { type: "start" }
  | { type: "opened"; conn: number }
  | { type: "frame"; conn: number; text: string }
  | { type: "closed"; conn: number; code: number; reason: string }
  | { type: "signed"; conn: number; signature: string }
  /** The run has visible text; an empty `delta` is a sign of life. */
  | { type: "progress"; jobId: string; attempt: number; delta: string }
  | { type: "completed"; result: KeptResult; tokens: number | null }
  | ({ type: "failed" } & Failure)
  /** The worker's abilities have changed. */
  | { type: "announce"; profile: Profile }
  /** Another session has taken or released the LLM runtime. */
  | { type: "runtime"; taken: boolean }
  | { type: "drain" }
  /** Check the link now: the network is back, or the machine was asleep. */
  | { type: "nudge" }
  /** Leave at once; results on the shelf are not lost. */
  | { type: "stop" }
  | { type: "time" };

/** What the shell must do, in this order. */
export type Effect =
  | { type: "dial"; conn: number }
  | { type: "send"; conn: number; text: string }
  | { type: "close"; conn: number; code: number; reason: string }
  | { type: "sign"; conn: number; text: string }
  | { type: "run"; run: Run }
  | { type: "abort"; jobId: string; attempt: number }
  /** The kept results have changed: store them. */
  | { type: "keep"; results: readonly KeptResult[] }
  | { type: "note"; note: SessionNote };

/** What a session tells its owner. `type` and the codes are stable; the sentences may change. */
export type SessionNote =
  | { type: "connecting"; try: number }
  | { type: "online"; worker_id: string | null; authenticated: boolean; proof: Proof; tier: Tier | null; network: string | null }
  /** The worker's stake tier has changed [ST2]. */
  | { type: "tier"; tier: Tier }
  | { type: "offline"; code: number | null; cause: string; retry_in_ms: number }
  | { type: "job_started"; job_id: string; attempt: number; job_type: "LLM_INFER" | "TASK" }
  | { type: "job_waiting"; job_id: string; attempt: number }
  | { type: "job_progress"; job_id: string; attempt: number; ms: number; chars: number }
  | { type: "job_finished"; job_id: string; attempt: number; ms: number; tokens: number | null }
  | { type: "job_failed"; job_id: string; attempt: number; error: string; message: string; retryable: boolean }
  | { type: "job_cancelled"; job_id: string; attempt: number; reason: string }
  | { type: "job_rejected"; job_id: string; reason: string }
  /** `message` explains why a result was rejected [WS10]. */
  | { type: "job_acknowledged"; job_id: string; status: string; error: string | null; message: string | null }
  | { type: "result_dropped"; job_id: string; attempt: number; reason: "expired" | "no_room" }
  | { type: "woke"; slept_ms: number }
  /** How far this machine's clock is off: ms, positive if it is ahead. Sent when the verdict changes [WS4]. */
  | { type: "clock"; verdict: ClockVerdict; off_ms: number }
  | { type: "warning"; code: string; message: string }
  | { type: "draining" }
  | ({ type: "stopped" } & Stop);

/** The inputs of one event (ms of a monotonic clock, wall clock, random number in [0, 1)) and its effects so far. */
export type Turn = { now: number; wall: number; random: () => number; effects: Effect[] };

/** Sends a frame if the worker is registered. True if it did. */
export function sendFrame(state: SessionState, frame: object | string, turn: Turn): boolean {
  if (state.link.kind !== "online") return false;
  const text = typeof frame === "string" ? frame : JSON.stringify(frame);
  turn.effects.push({ type: "send", conn: state.link.conn, text });
  return true;
}

/** Adds a note for the owner. */
export function tell(note: SessionNote, turn: Turn): void {
  turn.effects.push({ type: "note", note });
}
