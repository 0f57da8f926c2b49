// Cancelling a job: the request with the job's token, and what then became of the job and its money. A job's way can end here at every step.
import type { Job } from "../protocol/job.ts";
import type { Credit } from "../protocol/rest.ts";
import type { Connection } from "./connection.ts";
import type { ClientSettings } from "./options.ts";
import { lookAt } from "./poll.ts";
import { expectShape } from "./response.ts";
import { type Limit, NO_RETRY, retrying, untilAborted } from "./retry.ts";
import { isJobWithId } from "./shapes.ts";

/**
 * A committed job, for `cancel`, `waitFor`, `stream` and `get`. It is plain data, so it can be stored as JSON. Whoever has `cancelToken` can cancel the job:
 * keep it secret, as a `userId`.
 */
export type JobHandle = {
  /** UUID of the job. */
  jobId: string;
  /** The token that cancels the job; null if the router sent none, because it is older. */
  cancelToken: string | null;
};

/** What became of a job that was cancelled. */
export type Cancellation = {
  /** True if the job is cancelled; false if it had ended before. */
  cancelled: boolean;
  /** The job as it is now: `failed` with the error `cancelled`, or as it had ended before. */
  job: Job;
  /** True if money has moved for this job, false if the router says that none has; null if it says nothing: the job was free, or nothing is settled. */
  charged: boolean | null;
  /** The payer's balance, if the money of this job came into it or was taken from it; otherwise null. */
  credit: Credit | null;
};

/** `result.error` of a job that its seeker cancelled [JB13]. */
const CANCELLED = "cancelled";

/** Cancels a job and returns it as it is then [JB13]. Throws NotFoundError if the token is not the job's. */
async function cancelJob(connection: Connection, settings: ClientSettings, { jobId, cancelToken }: Named, limit: Limit): Promise<Job> {
  const timeout = settings.requestTimeout;
  return retrying({ ...settings.retry, waitsOut429: true }, limit, async () => {
    // A repeated cancel changes nothing and has the same answer.
    const request = { method: "DELETE", path: `/v1/jobs/${jobId}`, headers: new Headers({ "x-cancel-token": cancelToken }), timeout } as const;
    return expectShape(await connection.exchange(request, limit), request, isJobWithId(jobId));
  });
}

/** A job and the token that cancels it. */
type Named = { jobId: string; cancelToken: string };

/** Cancels a job and asks what became of its money. Throws NotFoundError if the token is not the job's. */
export async function cancelled(connection: Connection, settings: ClientSettings, named: Named, limit: Limit): Promise<Cancellation> {
  const job = await cancelJob(connection, settings, named, limit);
  // The job is cancelled. If its payment cannot be read now, it is not known.
  const seen = await lookAt(connection, { ...settings, retry: NO_RETRY }, named.jobId, limit).catch(() => null);
  limit.signal.throwIfAborted();
  const isCancelled = job.status === "failed" && job.result?.["error"] === CANCELLED;
  const money = { charged: seen?.settlement?.charged ?? null, credit: seen?.settlement?.credit ?? null };
  settings.usage.add(job, money);
  return { cancelled: isCancelled, job, ...money };
}

/** Cancels a job in the background, for a caller that has left. Nobody hears of a failure: the job then ends as it would have. */
export function cancelSoon(connection: Connection, settings: ClientSettings, named: Named): void {
  cancelJob(connection, settings, named, untilAborted()).catch(() => {});
}
