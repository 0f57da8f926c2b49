import { isTerminal } from "../../protocol/job.ts";
import { RETRY_AFTER } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import { findJob } from "../store/jobs.ts";
import { jobJson } from "../store/job-view.ts";
import { endedEvents } from "../stream/ended-events.ts";
import { eventStream, readLastEventId } from "../stream/event-text.ts";
import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";
import { jobId } from "./job-id.ts";
import { refuse } from "./refuse.ts";

/**
 * `GET /v1/jobs/{id}/events`: the hub streams what lives; what has ended and only D1 knows is told at once [API1, API6].
 * Whoever knows the id may follow the job, as with polling.
 */
export async function events(c: AppContext): Promise<Response> {
  const id = jobId(c);
  if (id === null) return refuse(c, "Job not found");
  const lastEventId = c.req.header("Last-Event-ID");
  const headers = new Headers(lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId });
  const request = new Request(new URL(`/v1/jobs/${id}/events`, c.req.url), { headers });
  const live = await askHub(c.env, (hub) => hub.fetch(request)).catch((error: unknown) => {
    logError("hub_unreachable", { request_id: c.var.requestId, job_id: id, ...errorFacts(error) });
    return null;
  });
  if (live?.status === 503) return refuse(c, "overloaded", RETRY_AFTER.overloaded);
  if (live !== null && live.status !== 404) {
    if (c.req.raw.method === "HEAD") await live.body?.cancel();
    // Copied, for the headers of an answer from elsewhere cannot be added to.
    return new Response(c.req.raw.method === "HEAD" ? null : live.body, live);
  }
  const row = await findJob(c.env.DB, id);
  if (row !== null && isTerminal(row.status)) return eventStream(endedEvents({ ...row, json: jobJson(row) }, readLastEventId(lastEventId)));
  return live !== null && row === null ? refuse(c, "Job not found") : refuse(c, "overloaded", RETRY_AFTER.overloaded);
}
