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
  /** The run has visible text, or (empty) shows that it is alive. */
  | { type: "progress"; jobId: string; attempt: number; delta: string }
  | { type: "completed"; result: KeptResult; tokens: number | null }
  | ({ type: "failed" } & Failure)
  /** The worker can do something else than before. */
  | { type: "announce"; profile: Profile }
  /** The LLM runtime is another session's now, or free again. */
  | { type: "runtime"; taken: boolean }
  | { type: "drain" }
  /** Somebody has reason to look at the link now: the network is back, the machine was asleep. */
  | { type: "nudge" }
  /** Leave at once; nothing is lost that a shelf keeps. */
  | { type: "stop" }
  | { type: "time" };

/** What the shell has to do, in this order. */
export type Effect =
  | { type: "dial"; conn: number }
  | { type: "send"; conn: number; text: string }
  | { type: "close"; conn: number; code: number; reason: string }
  | { type: "sign"; conn: number; text: string }
  | { type: "run"; run: Run }
  | { type: "abort"; jobId: string; attempt: number }
  /** The kept results changed: put them on the shelf. */
  | { type: "keep"; results: readonly KeptResult[] }
  | { type: "note"; note: SessionNote };

/** What a session tells its owner. `type` and the codes are stable, the sentences are not. */
export type SessionNote =
  | { type: "connecting"; try: number }
  | { type: "online"; worker_id: string | null; authenticated: boolean; proof: Proof; tier: Tier | null; network: string | null }
  /** Its stake buys another tier than before [ST2]. */
  | { type: "tier"; tier: Tier }
  | { type: "offline"; code: number | null; cause: string; retry_in_ms: number }
  | { type: "job_started"; job_id: string; attempt: number; job_type: "LLM_INFER" | "TASK" }
  | { type: "job_waiting"; job_id: string; attempt: number }
  | { type: "job_progress"; job_id: string; attempt: number; ms: number; chars: number }
  | { type: "job_finished"; job_id: string; attempt: number; ms: number; tokens: number | null }
  | { type: "job_failed"; job_id: string; attempt: number; error: string; message: string; retryable: boolean }
  | { type: "job_cancelled"; job_id: string; attempt: number; reason: string }
  | { type: "job_rejected"; job_id: string; reason: string }
  /** `message` says why a result was rejected [WS10]. */
  | { type: "job_acknowledged"; job_id: string; status: string; error: string | null; message: string | null }
  | { type: "result_dropped"; job_id: string; attempt: number; reason: "expired" | "no_room" }
  | { type: "woke"; slept_ms: number }
  /** This machine's clock against the coordinator's: ms, positive when it is ahead. Told when the verdict changes [WS4]. */
  | { type: "clock"; verdict: ClockVerdict; off_ms: number }
  | { type: "warning"; code: string; message: string }
  | { type: "draining" }
  | ({ type: "stopped" } & Stop);

/** One event's surroundings (ms of a clock that never goes back, wall clock, random number in [0, 1)) and the effects it has had so far. */
export type Turn = { now: number; wall: number; random: () => number; effects: Effect[] };

/** Sends a frame when the worker is registered; says whether it did. */
export function sendFrame(state: SessionState, frame: object | string, turn: Turn): boolean {
  if (state.link.kind !== "online") return false;
  const text = typeof frame === "string" ? frame : JSON.stringify(frame);
  turn.effects.push({ type: "send", conn: state.link.conn, text });
  return true;
}

/** Tells the owner. */
export function tell(note: SessionNote, turn: Turn): void {
  turn.effects.push({ type: "note", note });
}
