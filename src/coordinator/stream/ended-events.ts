import type { JobStatus } from "../../protocol/job.ts";
import type { StreamEvent } from "./event-log.ts";

/** The id of every `done`: nothing comes after it. The largest integer that every JSON reader keeps. */
export const DONE_ID = Number.MAX_SAFE_INTEGER;
/** The id of the `status` that is a job's last. Both are the same in every life of the hub, so they mean the same when its memory is gone. */
export const ENDED_ID = DONE_ID - 1;
const RESET_ID = DONE_ID - 2;

/**
 * The rest of the stream of a job that has ended and whose text nobody has any more [API6]: for a reader that has text a `reset`, then the last
 * status and the Job. Empty for one that has all.
 */
export function endedEvents(job: { status: JobStatus; attempt: number; json: string }, lastId: number | null): StreamEvent[] {
  const { status, attempt, json } = job;
  const events: StreamEvent[] = [
    { id: RESET_ID, name: "reset", data: JSON.stringify({ attempt }) },
    { id: ENDED_ID, name: "status", data: JSON.stringify({ status, attempt }) },
    { id: DONE_ID, name: "done", data: json },
  ];
  const seen = lastId ?? RESET_ID;
  return events.filter(({ id }) => id > seen);
}
