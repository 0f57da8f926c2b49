// Answers about jobs, from memory and the journal: a job, also after a wait for its end, its settlement, and the jobs of a user. On a job's way: poll.
import type { Receipt } from "../../protocol/job.ts";
import { type LiveJob, statusOf } from "../dispatch/index.ts";
import type { RecentJobs } from "../recent-jobs.ts";
import { jobJson, pageOf } from "../store/jobs.ts";
import { type JournalRow, storedReceipt, type StoredReceipt } from "../store/record.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { Outbox } from "./outbox.ts";
import type { PageRequest, UserJob } from "./rpc.ts";
import type { Waits } from "./timers.ts";

type Parts = { dispatcher: Dispatcher; journal: Journal; ledger: LedgerStore; outbox: Outbox; recent: RecentJobs; waits: Waits; clock: () => number };

/** Answers what clients ask about jobs. */
export class JobAnswers {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** JSON text of the Job, after up to `wait` seconds for its end; null if the hub does not have the job. */
  async job(id: string, wait: number, waiter: Parameters<Waits["wait"]>[3]): Promise<string | null> {
    const { dispatcher, journal, recent, waits, clock } = this.#parts;
    if (dispatcher.isDirty(id)) await dispatcher.whenDurable();
    if (wait > 0 && dispatcher.state.jobs.has(id)) await waits.wait(id, wait * 1_000, clock(), waiter);
    const live = dispatcher.state.jobs.get(id);
    if (live !== undefined) return liveJob(live);
    const ended = recent.get(id);
    if (ended !== undefined) return ended.json;
    // The job has just ended. Its end may be told only once it is durable.
    if (dispatcher.isDirty(id)) await dispatcher.whenDurable();
    const row = journal.row(id);
    return row === null ? null : endedJob(row);
  }

  /** JSON text of the SettleResponse of a job's payment, with the balance of its payer if that is concerned; null if no money has moved for it. */
  settlementOf(jobId: string): string | null {
    const { dispatcher, ledger } = this.#parts;
    return ledger.settlementOf(jobId, (payment) => dispatcher.balanceOf(payment));
  }

  /** A page of the jobs of a user, newest first: those that live, and those that have ended and that D1 may not have yet [JB14]. */
  async ofUser(userId: string, page: PageRequest): Promise<UserJob[]> {
    const { dispatcher, journal, outbox } = this.#parts;
    await dispatcher.whenDurable();
    const live = [...dispatcher.state.jobs.values()].filter((job) => job.userId === userId).map(userJob);
    return pageOf([...live, ...journal.endedOf(userId, outbox.ended())], page);
  }
}

/** JSON text of the Job of a stored row. */
export function endedJob(row: JournalRow): string {
  const stored = storedReceipt(row);
  const receipt = stored && withoutVerified(stored);
  return jobJson({ id: row.id, status: row.status, result: row.result, receipt, createdAt: row.created_at, completedAt: row.completed_at });
}

/** A receipt as REST shows it. */
function withoutVerified(stored: StoredReceipt): Receipt {
  const { verified: _, ...receipt } = stored;
  return receipt;
}

/** JSON text of a Job that has not ended [JB1]. */
function liveJob(job: LiveJob): string {
  return jobJson({ id: job.id, status: statusOf(job), result: null, receipt: null, createdAt: job.createdAt, completedAt: null });
}

/** A job that has not ended, for the list of its user [JB14]. */
function userJob(job: LiveJob): UserJob {
  return { id: job.id, jobType: job.jobType, status: statusOf(job), createdAt: job.createdAt, completedAt: null };
}
