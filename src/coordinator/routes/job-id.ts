import type { AppContext } from "./app-env.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The id in the path, in lower case; null when it is none, so that no job has it. */
export function jobId(c: AppContext): string | null {
  const id = (c.req.param("id") ?? "").toLowerCase();
  return UUID.test(id) ? id : null;
}
