import { LIMITS } from "../../protocol/limits.ts";

/** The time in an id starts again after so many ms, 34.8 years: next in September 2039. */
const TIMES = 2 ** 40;

/**
 * Returns the id of a new job: a UUID whose first byte is below `LIMITS.probationShare` at random, and whose next five are the time, `now` in ms. So the rows
 * of jobs that come together lie together in every index (docs/decisions/0017). 74 bits more are random, so nobody can guess an id. One id of five begins with
 * `00`: JB11 prefers workers on probation for these jobs.
 */
export function newJobId(now: number): string {
  const random = crypto.randomUUID();
  const first = Number.parseInt(random.slice(0, 2), 16) % LIMITS.probationShare;
  const time = (now % TIMES).toString(16).padStart(10, "0");
  return `0${first}${time.slice(0, 6)}-${time.slice(6)}${random.slice(13)}`;
}
