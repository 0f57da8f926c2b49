// Polling a job and following its event stream: the last step of a job, from the hub while it lives and from D1 after that.
import { MAX_WAIT_SECONDS, RETRY_AFTER } from "../../protocol/limits.ts";
import { isTerminal } from "../../protocol/text.ts";
import type { AppContext } from "../http/context.ts";
import { refuse, refuseWith } from "../http/errors.ts";
import { askHub } from "../http/hub-client.ts";
import { clientIp } from "../http/rate-limit.ts";
import { jobId } from "../http/request.ts";
import { waitLeft, waitParameter } from "../http/wait.ts";
import { CLIENT_HEADER } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import { findJob, jobJson } from "../store/jobs.ts";
import { endedEvents } from "../stream/event-log.ts";
import { eventStream, readLastEventId } from "../stream/reader.ts";
import { setSettlement } from "./paid-commit.ts";

/** `GET /v1/jobs/{id}`: answers from the hub, which has the live jobs, else from D1, which has the ended ones [API1, API6]. */
export async function job(c: AppContext): Promise<Response> {
  const id = jobId(c);
  if (id === null) return refuse(c, "Job not found");
  const wait = waitParameter(c.req.query("wait"));
  if (wait === null) return refuseWith(c, 400, `wait must be a whole number of seconds (more than ${MAX_WAIT_SECONDS} counts as ${MAX_WAIT_SECONDS})`);

  const left = waitLeft(wait);
  // The hub must be asked first: a job leaves the hub only when D1 has it.
  const live = await askHub(c.env, (hub) => hub.job(id, left(), clientIp(c.req.raw, c.var.settings))).catch((error: unknown) => {
    logError("hub_unreachable", { request_id: c.var.requestId, job_id: id, ...errorFacts(error) });
    return undefined;
  });
  if (typeof live === "string") return await answer(c, id, live);
  const row = await findJob(c.env.DB, id);
  if (row !== null) return await answer(c, id, jobJson(row));
  return live === null ? refuse(c, "Job not found") : refuse(c, "overloaded", RETRY_AFTER.overloaded);
}

async function answer(c: AppContext, id: string, json: string): Promise<Response> {
  if (!c.var.settings.testnetMode) setSettlement(c, await settlementOf(c, id));
  c.header("Content-Type", "application/json");
  return c.body(json);
}

/**
 * Returns the settlement of the job's payment [PY7]. It is read after the job, so that an answer that waited includes it. If it cannot be read,
 * the job is answered without it.
 */
async function settlementOf(c: AppContext, id: string): Promise<string | null> {
  return await askHub(c.env, (hub) => hub.settlement(id)).catch((error: unknown) => {
    logError("settlement_not_known", { request_id: c.var.requestId, job_id: id, ...errorFacts(error) });
    return null;
  });
}

/**
 * `GET /v1/jobs/{id}/events`: the hub streams a live job; for a job that only D1 has, the last events are sent at once [API1, API6].
 * As with polling, everyone who knows the id may follow the job.
 */
export async function events(c: AppContext): Promise<Response> {
  const id = jobId(c);
  if (id === null) return refuse(c, "Job not found");
  const lastEventId = c.req.header("Last-Event-ID");
  const headers = new Headers({ [CLIENT_HEADER]: clientIp(c.req.raw, c.var.settings), ...(lastEventId !== undefined && { "Last-Event-ID": lastEventId }) });
  const request = new Request(new URL(`/v1/jobs/${id}/events`, c.req.url), { headers });
  const live = await askHub(c.env, (hub) => hub.fetch(request)).catch((error: unknown) => {
    logError("hub_unreachable", { request_id: c.var.requestId, job_id: id, ...errorFacts(error) });
    return null;
  });
  if (live?.status === 503) return refuse(c, "overloaded", RETRY_AFTER.overloaded);
  if (live !== null && live.status !== 404) {
    if (c.req.raw.method === "HEAD") await live.body?.cancel();
    // Copied, because the headers of a fetched response cannot be changed.
    return new Response(c.req.raw.method === "HEAD" ? null : live.body, live);
  }
  const row = await findJob(c.env.DB, id);
  if (row !== null && isTerminal(row.status)) return eventStream(endedEvents({ ...row, json: jobJson(row) }, readLastEventId(lastEventId)));
  return live !== null && row === null ? refuse(c, "Job not found") : refuse(c, "overloaded", RETRY_AFTER.overloaded);
}
