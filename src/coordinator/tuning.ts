// Times (ms) and sizes inside the coordinator. No rule names them and no table of the docs prints them, so they can change with any release. Those of the rules
// and tables are in src/protocol/limits.ts and times.ts, whether clients see them or not. `PARTS` in scripts/source-laws.ts says which folders may import this
// file.
import { KiB, MiB } from "../protocol/limits.ts";
import { MINUTE, SECOND } from "../protocol/times.ts";

/** These times (ms) and sizes, by what they are for. */
export const TUNING = {
  /** An alarm that is later than this counts as lost. */
  alarmLost: 1 * SECOND,
  /** If the alarm is later than this when the hub starts, the hub was down, and its workers may need a while to come back [JB4]. */
  outage: 5 * SECOND,
  /** The times of the last frame and of the last job in a socket's attachment may be this old, because writing them costs. */
  seenSaved: 5 * SECOND,
  /** A socket that has sent a frame within this time is not asked for its last heartbeat. Shorter than `TIMING.alive` and all other times of silence. */
  seenFresh: 5 * SECOND,
  /** How old the noted time of a count of stored bytes may be: it only says when the count is over. */
  countNoted: 60 * MINUTE,
  /**
   * The most rows of a table that a hub with an earlier schema copies when it starts. It has 30 s of CPU time; 300,000 payments take 4 s (docs/decisions/0015),
   * 512 MiB of jobs 3 s.
   */
  copiedRows: 500_000,
  /**
   * The most rows of a kind that one cron run deletes in the hub (`purgedRows`, of payments and idempotency keys as many in each of `purgedSlices`) and in D1
   * (`retentionRows` per statement, `retentionBatches` statements). Every five minutes that is 200 a second, more jobs than one hub carries.
   */
  purgedRows: 10_000,
  purgedSlices: 6,
  retentionRows: 500,
  retentionBatches: 120,
  /** The most of the operator's orders that are read at once; the others follow with the next. */
  paymentOrders: 100,
  /** How long changes are collected after a write of the journal failed. Without the pause the rebuilt hub would fail again at once, in an endless loop. */
  journalPause: 500,
  /** The hub is at rest when the last write of the journal has been on the disk for so long. Then changes are written at once (docs/decisions/0014). */
  journalRest: 2,
  /** After a slow write changes are collected for half the time that the disk took, at most for so long. */
  journalGatheringMax: 4,
  /** The most characters of jobs that ended recently and are answered from memory. */
  recentChars: 4 * MiB,
  /** The cron has the hub forget those that ended longer ago. Much shorter than content is retained. */
  recentKept: 1 * MINUTE,
  /** For how long the router answers from them, where it runs in the hub's isolate. */
  recentHere: 10 * SECOND,
  /**
   * How long changes are collected before they are copied to D1, so that they share a write: `outboxLinger` at rest, and under load `outboxLingerPerRow` for
   * each row of the last copy, up to `outboxLingerMax`. Ends of jobs that fill a write are not collected any longer.
   */
  outboxLinger: 100,
  outboxLingerPerRow: 10,
  outboxLingerMax: 500,
  /** The same for the rows of jobs that have not ended, while none ends: most of them change again within this time. */
  outboxLiveLinger: 1 * SECOND,
  /**
   * How many of those rows each alarm copies, every two seconds, while many others end. Most jobs of a long queue are copied only once, when they have ended.
   */
  outboxLiveRows: 256,
  /** The first pause after D1 refused a write; it doubles with each refusal. */
  outboxBackoff: 1 * SECOND,
  /** The longest pause after D1 refused a write. */
  outboxBackoffMax: 30 * SECOND,
  /** When D1 has lacked a row for so long, it is logged, and again whenever as much time has passed. */
  outboxReport: 1 * MINUTE,
  /** The most bytes of jobs that have ended and are kept in memory until D1 has them. The others are read from the journal again. */
  outboxKept: 4 * MiB,
  /** The most characters of rows of live jobs in memory. The others are read from the journal again. */
  keptChars: 4 * MiB,
  /** The most counts of stored bytes in memory. */
  storedSums: 10_000,
  /** How long the hub uses a measured size of its SQLite. */
  hubMeasured: 1 * SECOND,
  /** How long a migration of D1 may take: as long as D1 lets one statement run [API10]. */
  migration: 30 * SECOND,
  /**
   * A D1 of more bytes gets its new indexes by the cron, and not before the first write. D1 has 30 s for a statement, and does nothing else meanwhile [API10].
   */
  indexedAtOnce: 256 * MiB,
  /** How long an isolate waits before it tries a failed migration again [API10]. */
  migrationPause: 5 * SECOND,
  /** The most payments that one write copies to D1. */
  copiedPayments: 200,
  /** Rows larger than this are copied to D1 alone, each text as its own parameter: inside JSON 1 MiB of quotes would double and exceed the limit of 2 MB. */
  aloneBytes: 256 * KiB,
  /** The most bytes of the rows in one statement to D1. */
  batchBytes: 768 * KiB,
  /** The most rows in one statement to D1. When so many jobs that have ended wait for D1, they are copied at once. */
  batchRows: 256,
  /** A frame of more bytes is not parsed before it is known that its worker held the job of the result in it [LM2]. */
  largeFrame: 16 * KiB,
  /** The shortest time between two pauses in reading frames, while frames come that may not be read [LM2]. */
  readPauseSpacing: 5,
  /** Rows about models that the hub writes, in a burst and in the long run: anyone can name any number of new models. */
  modelRows: { perSecond: 10, burst: 1_000 },
  /** How often a router asks the hub for `GET /v1/health` within one second. Above that it answers from memory [API1]. */
  healthAsks: 20,
  /** How long a router uses an answer of the hub about workers and models for other requests [API1, JB10]. */
  hubAnswerFresh: 1 * SECOND,
  /** How long the hub uses its list of models for the routers, each of which asks once a second, and for refusals of a model that nobody has. */
  offeredModelsFresh: 250,
  refusedModelsFresh: 1 * SECOND,
  /** How long a request waits for such an answer, which others have asked for, before it takes an older one. */
  hubAnswerPatience: 100,
  /** How old that one may be, and how long a request waits if there is none. */
  hubAnswerOld: 5 * SECOND,
  /** How long an answer waits for the next bytes of a body that nobody reads. */
  bodyPause: 500,
  /** For how long after a commit that the hub could not store the health check fails, if no commit works in between. */
  commitFailed: 30 * SECOND,
  /** The longest pause before the hub is asked a second time. */
  hubRetryPause: 100,
  /** The pauses between tries to tell the hub the outcome of a settle call. */
  outcomePauses: [0.5 * SECOND, 1 * SECOND, 2 * SECOND, 4 * SECOND],
  /** The shortest time between two polls of a job by an OpenAI request, while the hub has no place for one more stream or wait. */
  jobPollPause: 500,
  /** How long the job of an OpenAI request may be unreadable before its client is told so. A hub is back from a deploy or a crash within seconds. */
  jobUnread: 10 * SECOND,
  /** How long the facilitator's list of fee payers is used before it is asked for again. */
  feePayersFresh: 5 * MINUTE,
  /** How long a facilitator that gave no list is not asked again, so that 402s do not wait for it [PY12]. */
  feePayersPause: 2 * SECOND,
  /** How long requests use an old list while one of them asks for a new one. */
  feePayersAsking: 6 * SECOND,
  /** A payment with an unknown fee payer is refused only if the list is not older than this. */
  feePayersRefusing: 10 * SECOND,
  /** How long the number of a finalized block is noted with payments before it is read again. */
  chainBlockFresh: 30 * SECOND,
  /** How long a transaction may take from one node of Solana to another: the pause before its status is asked for again. */
  svmStatusPause: 400,
  /** How long a commit waits before it tries again to reserve a payment that another request has reserved. */
  busyPause: 500,
  /** A clock that goes back by more than this was set back on purpose. */
  clockSlack: 5 * SECOND,
  /** The shortest time between two checks whether the readers of all streams are still there, while there is no room for another stream. */
  streamProbe: 1 * SECOND,
  /** The most characters that a stream gives to the platform at once. A large event goes in parts, so that a slow reader keeps no copy of it. */
  streamChunkChars: 64 * KiB,
} as const;
