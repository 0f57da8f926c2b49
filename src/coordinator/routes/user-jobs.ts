// The list of a user's jobs. It needs the token that the user has bound, because a plain user id is known to every worker that the user has paired with.
import { describeIssues } from "../../protocol/issues.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type JobPage, JobsQuery } from "../../protocol/rest.ts";
import { isoTime } from "../../protocol/text.ts";
import type { AppContext } from "../http/context.ts";
import { refuse, refuseWith } from "../http/errors.ts";
import { askHub, HubUnavailable } from "../http/hub-client.ts";
import { provesUser, readUserToken } from "../http/request.ts";
import type { Part, UserJob } from "../hub/rpc.ts";
import { tokenHashOf } from "../store/trust.ts";
import { findUserJobs, joined, partOf } from "../store/user-jobs.ts";

/** `GET /v1/jobs`: a part of the jobs of a user, newest first, those that the hub has too [JB14]. */
export async function userJobs(c: AppContext): Promise<Response> {
  const given = { user_id: c.req.query("user_id"), limit: c.req.query("limit"), before: c.req.query("before") };
  if (given.user_id === undefined) return refuseWith(c, 400, "Missing required query parameter: user_id");
  const query = JobsQuery.safeParse(given);
  if (!query.success) return refuseWith(c, 400, describeIssues(query.error, given));
  const { user_id: userId } = query.data;
  const token = readUserToken(c.req.header("X-User-Token"), userId);
  if (!token.ok) return refuseWith(c, 400, token.reason);
  const bound = await tokenHashOf(c.env.DB, userId);
  if (bound === null || !provesUser(token.value, bound)) return refuse(c, "user_token_required");

  const limit = Number(query.data.limit ?? LIMITS.jobsListed);
  // One more than asked for tells whether there are others.
  const part: Part = { before: readCursor(query.data.before), limit: limit + 1 };
  // The hub must be asked first: a job leaves the hub only when D1 has it.
  const ofHub = await askHub(c.env, (hub) => hub.userJobs(userId, part)).catch((error: unknown) => {
    // During a deploy the hub may be older. D1 has its jobs within 2 s.
    if (error instanceof HubUnavailable && error.isOlder) return [];
    throw error;
  });
  const found = partOf(joined(ofHub, await findUserJobs(c.env.DB, userId, part)), part);
  const shown = found.slice(0, limit);
  const last = found.length > limit ? shown.at(-1) : undefined;
  const body: JobPage = { jobs: shown.map(summaryOf), next: last === undefined ? null : `${isoTime(last.createdAt)},${last.id}` };
  return c.json(body);
}

function summaryOf({ id, jobType, status, createdAt, completedAt }: UserJob): JobPage["jobs"][number] {
  return { id, job_type: jobType, status, created_at: isoTime(createdAt), completed_at: completedAt === null ? null : isoTime(completedAt) };
}

/** Reads `before`: a time, or the `next` of a page, which has an id too. */
function readCursor(before: string | undefined): Part["before"] {
  if (before === undefined) return null;
  const [time = "", id = ""] = before.split(",");
  return { at: Date.parse(time), id };
}
