// How the coordinator does its work: times in milliseconds and sizes that no client or worker depends on, so that they may change with any release.
// What clients and workers see is in src/protocol/limits.ts. Any room of the coordinator may import this file, except dispatch, which knows the protocol only.
import { KiB, MINUTE, MiB, SECOND } from "../protocol/limits.ts";

export const TUNING = {
  /** An alarm that is later than this is taken for lost. */
  alarmLost: 1 * SECOND,
  /** How old the last sign of life in a socket's attachment may be, since writing it costs. */
  seenSaved: 5 * SECOND,
  /** Rows of a kind that the hub forgets at most in one cron run, and how many D1 does in one statement, with how many of these in one run. */
  purgedRows: 10_000,
  sweptRows: 500,
  sweptBatches: 40,
  /** How long changes gather after a write of the journal failed: tried again at once, rebuilding would make the same change and go round and round. */
  journalPause: 500,
  /** Characters of jobs that ended lately and are still answered from memory. */
  recentChars: 4 * MiB,
  /** How long changes gather on their way to D1, so that they travel together. */
  outboxLinger: 100,
  /** First pause after D1 has refused; it doubles. */
  outboxBackoff: 1 * SECOND,
  /** Longest pause after D1 has refused. */
  outboxBackoffMax: 30 * SECOND,
  /** Refusals of D1 in a row after which it is logged. */
  outboxReport: 10,
  /** How long D1 may take for a migration: as long as it lets one statement run [API10]. */
  migration: 30 * SECOND,
  /** How long a migration that failed is not tried again by the isolate that tried it [API10]. */
  migrationPause: 5 * SECOND,
  /** Payments that are copied to D1 in one write. */
  copiedPayments: 200,
  /** Rows larger than this travel to D1 alone, each text as its own parameter: inside JSON, 1 MiB of quotes would double past its 2 MB. */
  aloneBytes: 256 * KiB,
  /** Bytes of the rows that travel to D1 in one statement. */
  batchBytes: 768 * KiB,
  /** Rows that travel to D1 in one statement. */
  batchRows: 500,
  /** How long a router answers `GET /v1/models` from memory [JB10]. */
  modelsFresh: 1 * SECOND,
  /** Longest pause before the hub is asked a second time. */
  hubRetryPause: 100,
  /** How long the facilitator's list of fee payers counts as fresh. */
  feePayersFresh: 5 * MINUTE,
  /** How long a facilitator that gave no list is not asked again: a 402 must not wait for it each time [PY12]. */
  feePayersPause: 2 * SECOND,
  /** Longest time that others are answered from an old list while one asks for a new one. */
  feePayersAsking: 6 * SECOND,
  /** How fresh the list must be before a payment is refused for not being by one of them. */
  feePayersRefusing: 10 * SECOND,
  /** How long a commit waits before it looks again at a payment that a request of before the hub lost its memory reserved. */
  busyPause: 500,
  /** A clock that goes back by more than this was put back. */
  clockSlack: 5 * SECOND,
  /** How often, at most, all streams are asked whether anybody reads them, while there is room for no more. */
  streamProbe: 1 * SECOND,
  /** Characters that a stream hands to the platform at once; a large event goes in parts, so that a slow reader holds no copy of it. */
  streamChunkChars: 64 * KiB,
} as const;
