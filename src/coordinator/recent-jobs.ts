// Jobs that ended recently, in memory: clients poll them next. On a job's way: poll.
import { isWithin } from "./deadline.ts";
import { TUNING } from "./tuning.ts";

/**
 * The JSON text of a Job that has ended, and whether the job was refused at commit [JB8]. `durableAt` is when its end was known to be durable, ms since the
 * epoch.
 */
type RecentJob = { json: string; refused: boolean; durableAt: number | null };

/**
 * Jobs that ended recently. D1 need not be read for them, and where the router runs in the hub's isolate, it need not ask the hub. Bounded; the oldest are
 * dropped first.
 */
export class RecentJobs {
  readonly #jobs = new Map<string, RecentJob>();
  #chars = 0;

  /** For the hub only: the end may not be on the disk yet, and the platform holds what the hub answers until it is. */
  get(id: string): Pick<RecentJob, "json" | "refused"> | undefined {
    return this.#jobs.get(id);
  }

  /**
   * Forgets the jobs whose end has been durable for `ms` or longer, because a job whose content retention has deleted must not be returned any more [LM3]. The
   * others stay: their clients still poll.
   */
  forget(now: number, ms: number): void {
    for (const [id, { json, durableAt }] of this.#jobs) {
      if (durableAt === null || isWithin(now, durableAt, ms)) continue;
      this.#jobs.delete(id);
      this.#chars -= json.length;
    }
  }

  /** Keeps the answer of a job that has ended. */
  put(id: string, job: Pick<RecentJob, "json" | "refused">): void {
    this.#chars += job.json.length - (this.#jobs.get(id)?.json.length ?? 0);
    this.#jobs.set(id, { ...job, durableAt: null });
    if (this.#chars <= TUNING.recentChars) return;
    // A tenth at once: each new loop over a map steps over the entries that were deleted before.
    for (const [oldest, { json }] of this.#jobs) {
      if (this.#chars <= 0.9 * TUNING.recentChars) return;
      this.#jobs.delete(oldest);
      this.#chars -= json.length;
    }
  }

  /** Notes that the ends of these jobs are durable. */
  becameDurable(ids: Iterable<string>, now: number): void {
    for (const id of ids) {
      const job = this.#jobs.get(id);
      if (job !== undefined) job.durableAt = now;
    }
  }

  /**
   * JSON text of a job whose end is durable; null if it is not known here. It is returned for a short time only: the hub may go on in another isolate, and what
   * its retention deletes there is not deleted here [LM3].
   */
  durable(id: string, now: number): string | null {
    const job = this.#jobs.get(id);
    return job !== undefined && job.durableAt !== null && isWithin(now, job.durableAt, TUNING.recentHere) ? job.json : null;
  }
}

/** The recent jobs of the hub that last started in this isolate; null before the first start. */
let here: RecentJobs | null = null;

/** The recent jobs of a hub that starts. From now on the router answers from them, if it runs in this isolate, and those of an earlier hub are forgotten. */
export function startHere(): RecentJobs {
  here = new RecentJobs();
  return here;
}

/**
 * JSON text of a job that has ended, if its hub runs in this isolate: then the poll needs no RPC. Otherwise null, and the hub has to be asked. An end never
 * changes, so this is what the hub would answer.
 */
export function endedHere(id: string, now: number): string | null {
  return here?.durable(id, now) ?? null;
}
