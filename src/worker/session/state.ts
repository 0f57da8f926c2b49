import type { Assign, Profile } from "./frames.ts";
import type { SessionTiming } from "./timing.ts";

/** How a registration is proved, or why it is not. */
export type Proof = "signed" | "no_challenge" | "other_host";

/** Why a session ended for good, as a stable code and a sentence for its owner. */
export type Stop = {
  reason: "stopped" | "drained" | "replaced" | "refused" | "other_network";
  message: string;
};

/** Where the socket is. `conn` numbers sockets: a late event of an older one changes nothing. */
export type Link =
  | { kind: "idle" }
  | { kind: "dialling"; conn: number; due: number }
  /** Open; waits for the challenge. */
  | { kind: "greeting"; conn: number; due: number }
  | { kind: "signing"; conn: number; due: number }
  /** `profile` is what was announced: the worker may change while it waits. */
  | { kind: "registering"; conn: number; due: number; proof: Proof; profile: Profile }
  | { kind: "online"; conn: number; since: number; heartbeatDue: number; silentDue: number; heartbeat: number; drained: boolean }
  /** No socket until `due`. */
  | { kind: "waiting"; due: number; parked: boolean }
  | { kind: "stopped"; stop: Stop };

/** The streamed text of one attempt: what waits to be sent, and the last that was. */
export type Progress = { seq: number; waiting: string; tail: { seq: number; delta: string }[] };

/** The job that runs. Times are the session's clock. */
export type RunningJob = {
  jobId: string;
  attempt: number;
  jobType: "LLM_INFER" | "TASK";
  startedAt: number;
  /** Renewed by every sign of life of the run. */
  executeDue: number;
  /** The job's total deadline. */
  totalDue: number;
  lastFrameAt: number;
  progress: Progress;
  /** Characters of visible text so far, and when the owner was last told. */
  chars: number;
  reportedAt: number;
};

/** An LLM job that was assigned while the runtime worked for another coordinator: not acknowledged, not started. */
export type WaitingJob = { assign: Assign; due: number };

/** A finished result that the coordinator has not acknowledged yet. */
export type KeptResult = {
  jobId: string;
  attempt: number;
  /** The whole `job_complete` frame, sent again exactly as it is. */
  frame: string;
  /** Wall clock in ms since the epoch; the receipt says the same. */
  completedAt: number;
};

/** A kept result and its times on the session's clock. */
export type HeldResult = KeptResult & { resendDue: number; expiresDue: number };

/** A `job_failed` that could not be sent yet. It is never acknowledged, so sending it ends it. */
export type Failure = { jobId: string; attempt: number; error: string; message: string; retryable: boolean };

/**
 * How this machine's clock agrees with the coordinator's: well enough, so badly that it will soon be too much, or so badly that the coordinator
 * would refuse every receipt for its `completed_at` [RC3].
 */
export type ClockVerdict = "right" | "doubtful" | "refused";

/** Everything a session knows. Changed by `reduce` only. */
export type SessionState = {
  readonly timing: SessionTiming;
  readonly publicKey: string;
  /** WHATWG `host` of the URL that is dialled. */
  readonly host: string;
  /** The only network to work for, if its owner named one. */
  readonly network: string | null;
  profile: Profile;
  link: Link;
  nextConn: number;
  /** Tries since the last link that lasted. */
  tries: number;
  /** A coordinator that had sent no challenge asked for a signature: wait longer for it. */
  patient: boolean;
  /** What the last challenge said. */
  challenged: { network: string; host: string } | null;
  job: RunningJob | null;
  /** The LLM runtime is another session's: set by its owner, who shares it among sessions. */
  runtimeTaken: boolean;
  waiting: WaitingJob | null;
  held: HeldResult[];
  failures: Failure[];
  /** The coordinator's wall clock less the session's own clock, ms; null while it is not known. */
  coordinatorOffset: number | null;
  /** What the owner was last told of this machine's clock. */
  clock: ClockVerdict;
  /** For how many seconds the coordinator said that it parks this worker, on the present socket. */
  parkedFor: number | null;
  /** Set while the worker leaves; `due` once nothing runs any more. */
  leaving: { due: number | null; toldConn: number | null } | null;
  /** Both clocks at the last event. */
  clocks: { now: number; wall: number };
};

/** What starts a run: the frame, and the attempt it belongs to. */
export type Run = { jobId: string; attempt: number; jobType: "LLM_INFER" | "TASK"; payload: Assign["payload"] };

/** A session that has not started. `kept` are results of an earlier process, `wall` is the wall clock. */
export function initialState(
  fixed: Pick<SessionState, "timing" | "publicKey" | "host" | "network" | "profile">,
  kept: readonly KeptResult[],
  clock: { now: number; wall: number },
): SessionState {
  const held = kept.map((result) => {
    const age = Math.max(0, clock.wall - result.completedAt);
    return { ...result, resendDue: clock.now, expiresDue: clock.now + fixed.timing.keepFor - age };
  });
  return {
    ...fixed,
    link: { kind: "idle" },
    nextConn: 1,
    tries: 0,
    patient: false,
    challenged: null,
    job: null,
    runtimeTaken: false,
    waiting: null,
    held: held.filter((result) => result.expiresDue > clock.now),
    failures: [],
    coordinatorOffset: null,
    clock: "right",
    parkedFor: null,
    leaving: null,
    clocks: { now: clock.now, wall: clock.wall },
  };
}

/** The number of the present socket, or null. */
export function presentConn(state: SessionState): number | null {
  return "conn" in state.link ? state.link.conn : null;
}
