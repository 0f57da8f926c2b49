// The core's vocabulary: the state of a worker session and its times, the events that `reduce` takes, the effects that it asks for, and the notes to the owner.
import { TIMING } from "../../protocol/times.ts";
import type { JobType } from "../../protocol/job.ts";
import type { Tier, WorkerFrame } from "../../protocol/worker-messages.ts";
import type { Assign, Profile } from "./frames.ts";

/** How a registration is proven, or why it is not. */
export type Proof = "signed" | "no_challenge" | "other_host";

/** Why a session ended for good: a stable code, and a sentence for its owner. */
export type Stop = {
  reason: "stopped" | "drained" | "replaced" | "refused" | "other_network";
  message: string;
};

/** The announcements of a registered worker that were not answered, and when it announces itself again if they still are not. */
type Announced = { unanswered: number; announceDue: number };

/** The state of the socket. `conn` numbers the sockets: a late event of an older one changes nothing. */
export type Link =
  | { kind: "idle" }
  | { kind: "dialling"; conn: number; due: number }
  /** The socket is open and waits for the challenge. */
  | { kind: "greeting"; conn: number; due: number }
  | { kind: "signing"; conn: number; due: number }
  /** `profile` is the announced one: the worker may change while it waits. */
  | { kind: "registering"; conn: number; due: number; proof: Proof; profile: Profile }
  | ({ kind: "online"; conn: number; since: number; heartbeatDue: number; silentDue: number; heartbeat: number; drained: boolean } & Announced)
  /** No socket until `due`. */
  | { kind: "waiting"; due: number; parked: boolean }
  | { kind: "stopped"; stop: Stop };

/** The streamed text of one attempt: the waiting text, and the last frames that were sent. */
export type Progress = { seq: number; waiting: string; tail: { seq: number; delta: string }[] };

/** The running job. Times are those of the session's clock. */
export type RunningJob = {
  jobId: string;
  attempt: number;
  jobType: JobType;
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
type WaitingJob = { assign: Assign; due: number };

/** A finished result that the coordinator has not acknowledged yet. */
export type KeptResult = {
  jobId: string;
  attempt: number;
  /** The whole `job_complete` frame; it is always sent unchanged. */
  frame: string;
  /** Wall clock in ms since the epoch; the same time as in the receipt. */
  completedAt: number;
};

/** A kept result with its deadlines on the session's clock. Until `resendDue` it is on its way: it was sent, and its acknowledgement may still come. */
export type UnacknowledgedResult = KeptResult & { resendDue: number; expiresDue: number };

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
  /** True once a job has begun here, and if there are results of an earlier process. */
  hasWorked: boolean;
  /** True while another session uses the LLM runtime. The owner of the sessions sets it. */
  runtimeTaken: boolean;
  waiting: WaitingJob | null;
  unacknowledged: UnacknowledgedResult[];
  failures: Failure[];
  /** The coordinator's wall clock minus the session's clock, in ms; null while it is unknown. */
  coordinatorOffset: number | null;
  /** The last verdict on this machine's clock that the owner was told. */
  toldClock: ClockVerdict;
  /** While the clocks differ, the coordinator is not asked for its time before then. */
  askTimeDue: number;
  /** How many seconds the coordinator parks this worker, as it stated on the current socket. */
  parkedFor: number | null;
  /** Set while the worker leaves; `due` is set once nothing runs any more. */
  leaving: { due: number | null; drainConn: number | null } | null;
  /** Both clocks at the last event. */
  clocks: { now: number; wall: number };
};

/** The input of a run. */
export type Run = { jobId: string; attempt: number; jobType: JobType; payload: Assign["payload"] };

/** The state of a session that has not started. `kept` are results of an earlier process; `wall` is the wall clock. */
export function initialState(
  fixed: Pick<SessionState, "timing" | "publicKey" | "host" | "network" | "profile">,
  kept: readonly KeptResult[],
  clock: { now: number; wall: number },
): SessionState {
  const unacknowledged = kept.map((result) => {
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
    hasWorked: kept.length > 0,
    runtimeTaken: false,
    waiting: null,
    unacknowledged,
    failures: [],
    coordinatorOffset: null,
    toldClock: "right",
    askTimeDue: clock.now,
    parkedFor: null,
    leaving: null,
    clocks: { now: clock.now, wall: clock.wall },
  };
}

/** The number of the current socket, or null. */
export function currentConn(state: SessionState): number | null {
  return "conn" in state.link ? state.link.conn : null;
}

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
  /** `timedOut`: the run gave no sign of life for too long, by the clock of this worker or of the coordinator [JB4]. */
  | { type: "abort"; jobId: string; attempt: number; timedOut: boolean }
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
  | { type: "job_started"; job_id: string; attempt: number; job_type: JobType }
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
export type ReduceContext = { now: number; wall: number; random: () => number; effects: Effect[] };

/** Times of a worker session in milliseconds. Tests shorten them; all others use {@link SESSION_TIMING}. */
export type SessionTiming = { readonly [name in keyof typeof SESSION_TIMING]: number };

/** The times of [WS2, WS4, WS6, WS9, WS10, JB4], and those that only concern a worker. */
export const SESSION_TIMING = {
  /** How long a connection attempt may take. */
  connect: 15_000,
  /** How long the worker waits for a challenge before it registers without a signature. A coordinator that implements only the specification sends none. */
  challenge: 2_000,
  /** The same time after a coordinator required a signature without having sent a challenge. */
  patientChallenge: 8_000,
  /** How long the answer to a registration may take. */
  register: TIMING.register,
  /** An announcement of a change that is not answered within once to twice this time is sent again: one over the coordinator's rate is not read [LM2]. */
  announce: 5_000,
  heartbeat: TIMING.heartbeat,
  /** A link without any frame for this long counts as dead. */
  silent: 30_000,
  /** The same time for a doubtful link: after a change of network. */
  probe: 5_000,
  /** The first reconnect comes within this time (full jitter). The bound doubles up to `reconnectMax`. */
  reconnectFirst: 5_000,
  reconnectMax: 30_000,
  /** A shorter link counts as one more failed try. */
  stable: 10_000,
  /** Shortest time between two progress frames: 20 a second [WS9]. */
  progress: 50,
  /** A job without visible text sends an empty delta this often, so that its lease is renewed. */
  keepalive: 10_000,
  /** How often a finished result is sent again while it is not acknowledged. */
  resend: 10_000,
  /** A receipt that is older is no longer valid [RC3], so its result is useless. */
  keepFor: TIMING.receiptSkew,
  /** How long a worker that leaves waits for the last acknowledgement and for `drained`. */
  leave: 10_000,
  executeTask: TIMING.executeTask,
  executeLlm: TIMING.executeLlm,
  total: TIMING.total,
  park: TIMING.park,
  parkMax: TIMING.parkMax,
  alive: TIMING.alive,
  /** How long an assigned LLM job waits for a runtime that works for another coordinator. The acknowledgement must come within 5 s [WS9]. */
  runtimeWait: 3_000,
  /** How often the owner learns the progress of a long run. */
  report: 1_000,
  /** A clock that is off by more than this causes a warning [WS4]. */
  clockDoubtful: 60_000,
  /**
   * With a clock that is off by more than this the worker takes no job: half a minute less than the coordinator allows, because a result needs time to arrive
   * [RC3].
   */
  clockRefused: TIMING.receiptSkew - 30_000,
  /** How often the coordinator is asked for its time while the clocks differ. */
  askTime: 60_000,
  /** If the wall clock advances this much more than the session's clock, the machine slept. */
  asleep: 5_000,
  /** How long a link has after a sleep to show that it still works. */
  wake: 5_000,
  /** How long a cancelled run may take to end before the next one starts. */
  settle: 3_000,
} as const;

/** The frames that are sent as objects. The text of a `register` or `job_complete` is made elsewhere. */
type SentFrame = Exclude<WorkerFrame, { type: "register" | "job_complete" }>;

/** Sends a frame if the worker is registered. True if it did. */
export function sendFrame(state: SessionState, frame: SentFrame | string, ctx: ReduceContext): boolean {
  if (state.link.kind !== "online") return false;
  const text = typeof frame === "string" ? frame : JSON.stringify(frame);
  ctx.effects.push({ type: "send", conn: state.link.conn, text });
  return true;
}

/** Adds a note for the owner. */
export function tell(note: SessionNote, ctx: ReduceContext): void {
  ctx.effects.push({ type: "note", note });
}
