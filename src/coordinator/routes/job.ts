// What clients are told about a job that was accepted: by poll, cancel, event stream and list. From the hub while a job lives, and from D1 after that.
import { describeIssues } from "../../protocol/issues.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type JobPage, JobsQuery } from "../../protocol/rest.ts";
import { isoTime, isTerminal, shortJobId } from "../../protocol/text.ts";
import type { Result } from "../../protocol/result.ts";
import { MAX_WAIT_SECONDS, RETRY_AFTER } from "../../protocol/times.ts";
import { CHANNEL_KEY } from "../http/channel-messages.ts";
import { answerJson, answerText, type AppContext, refuse, refuseWith } from "../http/context.ts";
import { askHub, HubUnavailable } from "../http/hub-client.ts";
import { clientOf, provesUser, readJobId, readUserToken, waitLeft, waitParameter } from "../http/request.ts";
import { type BoundToken, CLIENT_HEADER, type FoundJob, type Hub, type PageRequest, type UserJob } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import { endedHere } from "../recent-jobs.ts";
import { StoreUnavailable } from "../store/database.ts";
import { findJob, findUserJobs, jobJson, joined, pageOf } from "../store/jobs.ts";
import { noteUse, tokenOf } from "../store/trust.ts";
import { endedEvents } from "../stream/event-log.ts";
import { eventStream, readLastEventId } from "../stream/reader.ts";
import { settlementHeaders } from "./commit-answers.ts";

/** `GET /v1/jobs/{id}`: answers from the hub, which has the live jobs, else from D1, which has the ended ones [API1, API6]. */
export async function job(c: AppContext): Promise<Response> {
  const id = readJobId(c);
  if (id === null) return refuse(c, "Job not found");
  const wait = waitParameter(c.req.query("wait"));
  if (wait === null) return refuseWith(c, 400, `wait must be a whole number of seconds (more than ${MAX_WAIT_SECONDS} counts as ${MAX_WAIT_SECONDS})`);

  const { text, settlement, isReached } = await findJobText(c, id, wait);
  if (text === null) return isReached ? refuse(c, "Job not found") : refuse(c, "overloaded", RETRY_AFTER.overloaded);
  return answerText(c, text, 200, settlementHeaders(settlement));
}

/**
 * Finds a job as JSON text, after up to `wait` seconds for its end; null if it was not found. `settlement` is that of its payment. `isReached` is false if
 * the hub did not answer, so that the job may exist anyway.
 */
export async function findJobText(c: AppContext, id: string, wait: number): Promise<{ text: string | null; settlement: string | null; isReached: boolean }> {
  const isFree = c.get("settings").testnetMode;
  const ended = isFree ? endedHere(id, Date.now()) : null;
  if (ended !== null) return { text: ended, settlement: null, isReached: true };
  const left = waitLeft(wait);
  // The hub must be asked first: a job leaves the hub only when D1 has it.
  const asked = await askJob(c, id, left).catch((error: unknown) => {
    logError("hub_unreachable", { request_id: c.get("requestId"), job: shortJobId(id), ...errorFacts(error) });
    return null;
  });
  const row = asked?.job == null ? await lookUpJob(c, id, asked !== null) : null;
  // Only the hub knows what became of the money of a failed job. Without the hub the answer would say that nothing was charged [PY9].
  if (asked === null && row?.status === "failed" && !isFree) return { text: null, settlement: null, isReached: false };
  const text = asked?.job ?? (row === null ? null : jobJson(row));
  return { text, settlement: asked?.settlement ?? null, isReached: asked !== null };
}

/** Returns a job that the hub does not have, from D1; null if D1 does not have it. @throws {StoreUnavailable} */
async function lookUpJob(c: AppContext, id: string, isReached: boolean): Promise<FoundJob | null> {
  return sharesQueries(c) && isReached ? await shared(c, (hub) => hub.lookUpJob(id)) : await findJob(c.env.DB, id);
}

/** Returns the token of a user, from D1; null without one. @throws {StoreUnavailable} */
async function lookUpToken(c: AppContext, userId: string): Promise<BoundToken | null> {
  return sharesQueries(c) ? await shared(c, (hub) => hub.lookUpToken(userId)) : await tokenOf(c.env.DB, userId);
}

/**
 * True outside Cloudflare, where D1 is in the thread of the hub: what strangers can ask hundreds of times at once shares queries there, because with one each
 * they delay every other job. A request cannot wait for the query of another one itself.
 */
function sharesQueries(c: AppContext): boolean {
  return c.env[CHANNEL_KEY] !== undefined;
}

/** The answer of the hub to a lookup. @throws {StoreUnavailable} */
async function shared<T>(c: AppContext, lookUp: (hub: Hub) => Promise<Result<T, string>>): Promise<T> {
  const found = await askHub(c.env, lookUp);
  if (!found.ok) throw new StoreUnavailable(new Error(found.reason));
  return found.value;
}

/** Asks the hub for a job and its settlement, which only the hub knows, also for a job that has ended [PY7]. */
async function askJob(c: AppContext, id: string, left: () => number): Promise<{ job: string | null; settlement: string | null }> {
  const settings = c.get("settings");
  const client = clientOf(c.req.raw, settings);
  const askFree = () => askHub(c.env, (hub) => hub.job(id, left(), client));
  if (settings.testnetMode) return { job: await askFree(), settlement: null };
  try {
    return await askHub(c.env, (hub) => hub.poll(id, left(), client));
  } catch (error) {
    if (!(error instanceof HubUnavailable) || !error.isOlder) throw error;
    return { job: await askFree(), settlement: await askHub(c.env, (hub) => hub.settlement(id)) };
  }
}

/** `DELETE /v1/jobs/{id}`: cancels a job for the one who committed it, and answers it as it is then. A job that has ended stays as it is [JB13]. */
export async function cancel(c: AppContext): Promise<Response> {
  const id = readJobId(c);
  const token = c.req.header("X-Cancel-Token");
  const cancelled = id === null || token === undefined ? null : await askHub(c.env, (hub) => hub.cancel(id, token));
  if (id === null || cancelled === null) return refuse(c, "Job not found");
  const row = cancelled.job === null ? await findJob(c.env.DB, id) : null;
  const json = cancelled.job ?? (row === null ? null : jobJson(row));
  if (json === null) return refuse(c, "Job not found");
  // The one who cancels a paid job is told at once what became of its money. Without the header the answer would say that nothing was charged [PY9].
  const settlement = c.get("settings").testnetMode ? null : await askHub(c.env, (hub) => hub.settlement(id));
  return answerText(c, json, 200, settlementHeaders(settlement));
}

/**
 * `GET /v1/jobs/{id}/events`: the hub streams a live job; for a job that only D1 has, the last events are sent at once [API1, API6].
 * As with polling, everyone who knows the id may follow the job.
 */
export async function events(c: AppContext): Promise<Response> {
  const id = readJobId(c);
  return id === null ? refuse(c, "Job not found") : await eventsOf(c, id, c.req.header("Last-Event-ID"));
}

/** The event stream of a job, from the event after `lastEventId`. */
export async function eventsOf(c: AppContext, id: string, lastEventId: string | undefined): Promise<Response> {
  const headers = new Headers({ [CLIENT_HEADER]: clientOf(c.req.raw, c.get("settings")), ...(lastEventId !== undefined && { "Last-Event-ID": lastEventId }) });
  const request = new Request(new URL(`/v1/jobs/${id}/events`, c.req.url), { headers });
  const live = await askHub(c.env, (hub) => hub.fetch(request)).catch((error: unknown) => {
    logError("hub_unreachable", { request_id: c.get("requestId"), job: shortJobId(id), ...errorFacts(error) });
    return null;
  });
  if (live?.status === 503) return refuse(c, "overloaded", RETRY_AFTER.overloaded);
  if (live !== null && live.status !== 404) {
    if (c.req.raw.method === "HEAD") await live.body?.cancel();
    // Copied, because the headers of a fetched response cannot be changed.
    return new Response(c.req.raw.method === "HEAD" ? null : live.body, live);
  }
  const row = await lookUpJob(c, id, live !== null);
  if (row !== null && isTerminal(row.status)) return eventStream(endedEvents({ ...row, json: jobJson(row) }, readLastEventId(lastEventId)));
  return live !== null && row === null ? refuse(c, "Job not found") : refuse(c, "overloaded", RETRY_AFTER.overloaded);
}

/**
 * `GET /v1/jobs`: a page of the jobs of a user, newest first, those that the hub has too. It needs the token that the user has bound, because a plain user id
 * is known to every worker that the user has paired with, and it begins with the binding [JB14].
 */
export async function userJobs(c: AppContext): Promise<Response> {
  const given = { user_id: c.req.query("user_id"), limit: c.req.query("limit"), before: c.req.query("before") };
  if (given.user_id === undefined) return refuseWith(c, 400, "Missing required query parameter: user_id");
  const query = JobsQuery.safeParse(given);
  if (!query.success) return refuseWith(c, 400, describeIssues(query.error, given));
  const { user_id: userId } = query.data;
  const token = readUserToken(c.req.header("X-User-Token"), userId);
  if (!token.ok) return refuseWith(c, 400, token.reason);
  const bound = await lookUpToken(c, userId);
  if (bound === null || !provesUser(token.value, bound.hash)) return refuse(c, "user_token_required");
  await noteUse(c.env.DB, { userId, keys: [], usedAt: bound.usedAt, requestId: c.get("requestId") });

  const limit = Number(query.data.limit ?? LIMITS.jobsListed);
  // One more than asked for tells whether there are others. A stranger who binds a token to the id of another user must not see what was committed before.
  const page: PageRequest = { before: readCursor(query.data.before), since: bound.boundAt, limit: limit + 1 };
  // The hub must be asked first: a job leaves the hub only when D1 has it.
  const ofHub = await askHub(c.env, (hub) => hub.userJobs(userId, page)).catch((error: unknown) => {
    // During a deploy the hub may be older. D1 has its jobs within 2 s.
    if (error instanceof HubUnavailable && error.isOlder) return [];
    throw error;
  });
  const found = pageOf(joined(ofHub, await findUserJobs(c.env.DB, userId, page)), page);
  const shown = found.slice(0, limit);
  const last = found.length > limit ? shown.at(-1) : undefined;
  const body: JobPage = { jobs: shown.map(summaryOf), next: last === undefined ? null : `${isoTime(last.createdAt)},${last.id}` };
  return answerJson(c, body);
}

function summaryOf({ id, jobType, status, createdAt, completedAt }: UserJob): JobPage["jobs"][number] {
  return { id, job_type: jobType, status, created_at: isoTime(createdAt), completed_at: completedAt === null ? null : isoTime(completedAt) };
}

/** Reads `before`: a time, or the `next` of a page, which has an id too. */
function readCursor(before: string | undefined): PageRequest["before"] {
  if (before === undefined) return null;
  const [time = "", id = ""] = before.split(",");
  return { at: Date.parse(time), id };
}
