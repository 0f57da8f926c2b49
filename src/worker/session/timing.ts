import { TIMING } from "../../protocol/times.ts";

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
  /** With a clock that is off by more than this the worker takes no job: half a minute less than the coordinator allows, because a result needs time to arrive [RC3]. */
  clockRefused: TIMING.receiptSkew - 30_000,
  /** If the wall clock advances this much more than the session's clock, the machine slept. */
  asleep: 5_000,
  /** How long a link has after a sleep to show that it still works. */
  wake: 5_000,
  /** How long a cancelled run may take to end before the next one starts. */
  settle: 3_000,
} as const;
