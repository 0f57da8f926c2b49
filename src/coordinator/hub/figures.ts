// What an operator counts: how much the hub has to do now, and how jobs have ended since it began. On a job's way: after its end.
import type { LiveJob } from "../dispatch/index.ts";
import { outcomeOf } from "../store/jobs.ts";
import type { JournalRow } from "../store/record.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { Outbox } from "./outbox.ts";
import type { StorageRoom } from "./storage-room.ts";

/** Jobs of one type that have ended in the same way, with the time from commit to end of all of them, in ms. `outcome` is `completed` or the error. */
type Ended = { type: string; outcome: string; jobs: number; ms: number };

/** The figures of a hub. */
export type HubFigures = {
  /** When it began, ms since the epoch. */
  since: number;
  /** Registered workers with an open socket. */
  workers: { idle: number; busy: number };
  /** Jobs that have not ended, by their phase. */
  jobs: Record<LiveJob["phase"]["kind"], number>;
  /** Since then. */
  ended: Ended[];
  /** Payments that are not done, by their phase. */
  payments: ReturnType<LedgerStore["counts"]>;
  /** Jobs that have ended and whose row D1 may not have. */
  behind: number;
  /** Bytes of each store, as they were measured last, and how large each may become. */
  stored: { hub: number; d1: number; most: number };
};

/** What the figures are counted from. */
type Counted = {
  clock: () => number;
  dispatcher: Pick<Dispatcher, "state">;
  ledger: Pick<LedgerStore, "counts">;
  outbox: Pick<Outbox, "behind">;
  room: Pick<StorageRoom, "sizes">;
};

/** Counts for the operator. Each end is counted at once; everything else only when it is asked for. */
export class Figures {
  readonly #parts: Counted;
  readonly #since: number;
  readonly #ended = new Map<string, Ended>();

  constructor(parts: Counted) {
    this.#parts = parts;
    this.#since = parts.clock();
    // Prometheus does not count the first value of a series.
    for (const type of ["LLM_INFER", "TASK"]) this.#endedAs(type, "completed");
  }

  /** Counts a job that has ended. */
  count(row: JournalRow): void {
    const ended = this.#endedAs(row.job_type, outcomeOf(row));
    ended.jobs++;
    ended.ms += Math.max(0, (row.ended_at ?? row.created_at) - row.created_at);
  }

  /** True if no worker has a job and no payment is being settled: a hub that ends now interrupts nothing. */
  isAtRest(): boolean {
    const { jobs, payments } = this.now();
    return jobs.leased === 0 && payments.settling === 0;
  }

  /** The figures of now. */
  now(): HubFigures {
    const { clock, dispatcher, ledger, outbox, room } = this.#parts;
    const { jobs, workers } = dispatcher.state;
    const figures: HubFigures = {
      since: this.#since,
      workers: { idle: 0, busy: 0 },
      jobs: { waiting: 0, settling: 0, leased: 0, orphaned: 0 },
      ended: [...this.#ended.values()],
      payments: ledger.counts(),
      behind: outbox.behind,
      stored: room.sizes(clock()),
    };
    for (const { jobId } of workers.values()) figures.workers[jobId === null ? "idle" : "busy"]++;
    for (const { phase } of jobs.values()) figures.jobs[phase.kind]++;
    return figures;
  }

  #endedAs(type: string, outcome: string): Ended {
    const name = `${type} ${outcome}`;
    const ended = this.#ended.get(name) ?? { type, outcome, jobs: 0, ms: 0 };
    this.#ended.set(name, ended);
    return ended;
  }
}
