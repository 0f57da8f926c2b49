import { TIMING } from "../../protocol/limits.ts";

/** Times of a worker session in milliseconds. Tests shorten them; everyone else takes {@link SESSION_TIMING}. */
export type SessionTiming = { readonly [name in keyof typeof SESSION_TIMING]: number };

/** The times of [WS2, WS4, WS6, WS9, WS10, JB4], and those that are a worker's own affair. */
export const SESSION_TIMING = {
  /** How long a dial may take. */
  connect: 15_000,
  /** How long a challenge is waited for before registering without a signature; a coordinator written from SPEC.md alone sends none. */
  challenge: 2_000,
  /** The same after a coordinator that had sent none asked for a signature. */
  patientChallenge: 8_000,
  /** How long the answer to a registration may take. */
  register: TIMING.register,
  heartbeat: TIMING.heartbeat,
  /** A link that brought nothing for so long is dead. */
  silent: 30_000,
  /** The same for a link of which somebody doubts that it lives: after a sleep, or a change of network. */
  probe: 5_000,
  /** The first reconnect comes within this, by full jitter; the bound doubles up to `reconnectMax`. */
  reconnectFirst: 5_000,
  reconnectMax: 30_000,
  /** A link that lasted less than this counts as one more failed try. */
  stable: 10_000,
  /** Shortest time between two progress frames: 20 a second [WS9]. */
  progress: 50,
  /** A job whose text is not visible yet sends an empty delta this often, so that its lease is renewed. */
  keepalive: 10_000,
  /** How often a finished result is sent again while it is not acknowledged. */
  resend: 10_000,
  /** A receipt older than this is no longer valid [RC3], so its result is of no use. */
  keepFor: TIMING.receiptSkew,
  /** How long a worker that leaves waits for the last acknowledgement and for `drained`. */
  leave: 10_000,
  executeTask: TIMING.executeTask,
  executeLlm: TIMING.executeLlm,
  total: TIMING.total,
  park: TIMING.park,
  parkMax: TIMING.parkMax,
  /** How long an assigned LLM job waits for a runtime that works for another coordinator; the acknowledgement has to come within 5 s [WS9]. */
  hold: 3_000,
  /** How often a long run tells its owner how far it is. */
  report: 1_000,
  /** A clock that is off by more than this is warned of; one that is off by more than the other would have its receipts refused [WS4, RC3]. */
  clockDoubtful: 60_000,
  /** Half a minute less than the coordinator allows: a result may be on its way for a while. */
  clockRefused: TIMING.receiptSkew - 30_000,
  /** The wall clock ran this much further than the session's own: the machine slept. */
  asleep: 5_000,
  /** After sleep a link has this long to show that it lives. */
  wake: 5_000,
  /** How long a cancelled run may take to end before the next one starts beside it. */
  settle: 3_000,
} as const;
