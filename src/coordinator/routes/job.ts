import { MAX_WAIT_SECONDS, RETRY_AFTER } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import { setSettlement } from "../payment/headers.ts";
import { findJob } from "../store/jobs.ts";
import { jobJson } from "../store/job-view.ts";
import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";
import { jobId } from "./job-id.ts";
import { waitLeft, waitParameter } from "./prefer.ts";
import { refuse, refuseWith } from "./refuse.ts";

/** `GET /v1/jobs/{id}`: the hub knows what lives, D1 what has ended [API1, API6]. */
export async function job(c: AppContext): Promise<Response> {
  const id = jobId(c);
  if (id === null) return refuse(c, "Job not found");
  const wait = waitParameter(c.req.query("wait"));
  if (wait === null) return refuseWith(c, 400, `wait must be a whole number of seconds (more than ${MAX_WAIT_SECONDS} counts as ${MAX_WAIT_SECONDS})`);

  const left = waitLeft(wait);
  // In this order: a job leaves the hub only once D1 has it.
  const live = await askHub(c.env, (hub) => hub.job(id, left())).catch((error: unknown) => {
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

/** What became of the job's payment [PY7]. Asked after the job, so that an answer that waited has it; a job is worth telling without it. */
async function settlementOf(c: AppContext, id: string): Promise<string | null> {
  return await askHub(c.env, (hub) => hub.settlement(id)).catch((error: unknown) => {
    logError("settlement_not_known", { request_id: c.var.requestId, job_id: id, ...errorFacts(error) });
    return null;
  });
}
