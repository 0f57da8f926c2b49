import type { Job } from "../../src/protocol/job.ts";
import { until } from "./until.ts";

/** An HTTP answer with its parsed body. */
export type Answer = { status: number; body: Record<string, unknown> };

/** One request with a JSON body. */
export async function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** One GET. */
export async function get(url: string, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(url, { headers });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** Commits and expects a 201; the id of the job. */
export async function commit(base: string, tier: "fast" | "cheap", body: Record<string, unknown>): Promise<string> {
  const answer = await post(`${base}/v1/jobs/commit/${tier}`, { user_id: "e2e", ...body });
  if (answer.status !== 201) throw new Error(`commit answered ${answer.status} ${JSON.stringify(answer.body)}`);
  return String(answer.body.job_id);
}

/** A TASK job's body. */
export function task(input: string, taskType: "summarize" | "classify" | "extract_json" = "summarize"): Record<string, unknown> {
  return { job_type: "TASK", payload: { job_type: "TASK", task_type: taskType, input } };
}

/** Polls as a seeker does until the job has ended. */
export async function ended(base: string, id: string): Promise<Job> {
  let last: unknown;
  return until(
    `end of job ${id}`,
    async () => {
      // A coordinator that is just coming back refuses the connection or answers 503.
      const answer = await get(`${base}/v1/jobs/${id}`).catch(() => null);
      last = answer;
      if (answer === null || answer.status !== 200) return undefined;
      const job = answer.body as unknown as Job;
      return job.status === "completed" || job.status === "failed" ? job : undefined;
    },
    () => JSON.stringify(last),
  );
}
