// The state of a worker session: its link, its running job, its unacknowledged results, and what it knows about the clocks. Only `reduce` changes it.
import type { Assign, Profile } from "./frames.ts";
import type { SessionTiming } from "./timing.ts";

/** How a registration is proven, or why it is not. */
export type Proof = "signed" | "no_challenge" | "other_host";

/** Why a session ended for good: a stable code, and a sentence for its owner. */
export type Stop = {
  reason: "stopped" | "drained" | "replaced" | "refused" | "other_network";
  message: string;
};

/** The state of the socket. `conn` numbers the sockets: a late event of an older one changes nothing. */
export type Link =
  | { kind: "idle" }
  | { kind: "dialling"; conn: number; due: number }
  /** The socket is open and waits for the challenge. */
  | { kind: "greeting"; conn: number; due: number }
  | { kind: "signing"; conn: number; due: number }
  /** `profile` is the announced one: the worker may change while it waits. */
  | { kind: "registering"; conn: number; due: number; proof: Proof; profile: Profile }
  | { kind: "online"; conn: number; since: number; heartbeatDue: number; silentDue: number; heartbeat: number; drained: boolean }
  /** No socket until `due`. */
  | { kind: "waiting"; due: number; parked: boolean }
  | { kind: "stopped"; stop: Stop };

/** The streamed text of one attempt: the waiting text, and the last frames that were sent. */
export type Progress = { seq: number; waiting: string; tail: { seq: number; delta: string }[] };

/** The running job. Times are those of the session's clock. */
export type RunningJob = {
  jobId: string;
  attempt: number;
  jobType: "LLM_INFER" | "TASK";
  startedAt: number;
  /** Every sign of life of the run renews it. */
  executeDue: number;
  /** The job's total deadline. */
  totalDue: number;
  lastFrameAt: number;
  progress: Progress;
  /** Characters of visible text so far. */
  chars: number;
  /** When the owner was last told. */
  reportedAt: number;
};

/** An LLM job that was assigned while the runtime works for another coordinator. It is neither acknowledged nor started. */
export type WaitingJob = { assign: Assign; due: number };

/** A finished result that the coordinator has not acknowledged yet. */
export type KeptResult = {
  jobId: string;
  attempt: number;
  /** The whole `job_complete` frame; it is always sent unchanged. */
  frame: string;
  /** Wall clock in ms since the epoch; the same time as in the receipt. */
  completedAt: number;
};

/** A kept result with its deadlines on the session's clock. */
export type HeldResult = KeptResult & { resendDue: number; expiresDue: number };

/** A `job_failed` that could not be sent yet. It gets no acknowledgement, so it is forgotten once it is sent. */
export type Failure = { jobId: string; attempt: number; error: string; message: string; retryable: boolean };

/**
 * The verdict on this machine's clock: `right`; `doubtful`, if the difference may soon be too large; `refused`, if the coordinator would refuse every receipt
 * because of its `completed_at` [RC3].
 */
export type ClockVerdict = "right" | "doubtful" | "refused";

/** Everything that a session knows. Only `reduce` changes it. */
export type SessionState = {
  readonly timing: SessionTiming;
  readonly publicKey: string;
  /** WHATWG `host` of the URL that the session connects to. */
  readonly host: string;
  /** The only network to work for, if the owner named one. */
  readonly network: string | null;
  profile: Profile;
  link: Link;
  nextConn: number;
  /** Tries since the last stable link. */
  tries: number;
  /** True after a coordinator required a signature without having sent a challenge: the session then waits longer for the challenge. */
  patient: boolean;
  /** Network and host of the last challenge. */
  challenged: { network: string; host: string } | null;
  job: RunningJob | null;
  /** True while another session uses the LLM runtime. The owner of the sessions sets it. */
  runtimeTaken: boolean;
  waiting: WaitingJob | null;
  held: HeldResult[];
  failures: Failure[];
  /** The coordinator's wall clock minus the session's clock, in ms; null while it is unknown. */
  coordinatorOffset: number | null;
  /** The last verdict on this machine's clock that the owner was told. */
  clock: ClockVerdict;
  /** How many seconds the coordinator parks this worker, as it stated on the current socket. */
  parkedFor: number | null;
  /** Set while the worker leaves; `due` is set once nothing runs any more. */
  leaving: { due: number | null; toldConn: number | null } | null;
  /** Both clocks at the last event. */
  clocks: { now: number; wall: number };
};

/** The input of a run. */
export type Run = { jobId: string; attempt: number; jobType: "LLM_INFER" | "TASK"; payload: Assign["payload"] };

/** The state of a session that has not started. `kept` are results of an earlier process; `wall` is the wall clock. */
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

/** The number of the current socket, or null. */
export function presentConn(state: SessionState): number | null {
  return "conn" in state.link ? state.link.conn : null;
}
