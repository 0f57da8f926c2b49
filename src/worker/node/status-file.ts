// The status file of a running worker, which `compute-router worker status` reads.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { discard, replaceFile } from "./atomic-files.ts";
import { isRunning, namesIn, processTag, readProcessTag, thisProcess } from "./worker-lock.ts";
import type { WorkerStatus } from "./worker-status.ts";

const Count = z.int().min(0);
const JobCounts = z.object({ completed: Count, failed: Count, cancelled: Count });

/** The report that a running worker writes about itself. Times are ISO 8601. */
export const StatusReport = z.object({
  version: z.literal(1),
  pid: z.int().positive(),
  started_at: z.string(),
  updated_at: z.string(),
  provider_pubkey: z.string(),
  name: z.string().nullable(),
  metrics: z.string().nullable(),
  draining: z.boolean(),
  llm: z.object({ runtime: z.string(), model: z.string() }).nullable(),
  coordinators: z.array(
    z.object({
      coordinator: z.string(),
      /** Address of the socket; missing from workers of an older version. */
      url: z.string().optional(),
      state: z.enum(["connecting", "online", "offline", "stopped"]),
      cause: z.string().nullable(),
      network: z.string().nullable(),
      tier: z.string().nullable(),
      authenticated: z.boolean(),
      reconnects: Count,
      job: z.object({ job_id: z.string(), job_type: z.enum(["LLM_INFER", "TASK"]), started_at: z.string() }).nullable(),
      jobs: z.object({ LLM_INFER: JobCounts, TASK: JobCounts }),
      tokens: Count,
      /** Results that the coordinator rejected or that came too late; missing from workers of an older version. */
      rejected: Count.default(0),
      last_rejection: z.string().nullable().default(null),
      /** How far the machine's clock is off, positive if it is ahead; null while it agrees. */
      clock_off_ms: z.int().nullable().default(null),
    }),
  ),
});
/** Type of the schema with the same name. */
export type StatusReport = z.infer<typeof StatusReport>;

/** What a report states besides the status. Times are the wall clock in ms since the epoch. */
type ReportAbout = {
  pid: number;
  startedAt: number;
  now: number;
  publicKey: string;
  name: string | null;
  metrics: string | null;
  /** Socket URLs of the coordinators, in the order of the links. */
  urls: readonly string[];
};

/** The report for a status. */
export function statusReport({ draining, llm, links }: WorkerStatus, about: ReportAbout): StatusReport {
  return {
    version: 1,
    pid: about.pid,
    started_at: iso(about.startedAt),
    updated_at: iso(about.now),
    provider_pubkey: about.publicKey,
    name: about.name,
    metrics: about.metrics,
    draining,
    llm,
    coordinators: links.map(
      ({ coordinator, link, cause, network, tier, authenticated, reconnects, job, jobs, tokens, results, lastRejection, clockOff }, index) => ({
        coordinator,
        url: about.urls[index],
        state: link,
        cause,
        network,
        tier,
        authenticated,
        reconnects,
        job: job === null ? null : { job_id: job.id, job_type: job.type, started_at: iso(job.since) },
        jobs: { LLM_INFER: outcomes(jobs.LLM_INFER), TASK: outcomes(jobs.TASK) },
        tokens,
        rejected: (results.rejected ?? 0) + (results.dropped ?? 0),
        last_rejection: lastRejection,
        clock_off_ms: clockOff,
      }),
    ),
  };
}

function outcomes({ completed, failed, cancelled }: z.infer<typeof JobCounts>): z.infer<typeof JobCounts> {
  return { completed, failed, cancelled };
}

/** The file with the status of this process. Only its owner can read it, and it is replaced in one step. */
export class StatusFile {
  readonly #file: string;

  constructor(folder: string) {
    this.#file = join(folder, `worker.${processTag(thisProcess())}.status.json`);
  }

  /** Writes a report. If the disk fails, the worker continues without a status file. */
  write(report: StatusReport): void {
    try {
      replaceFile(this.#file, `${JSON.stringify(report, null, 2)}\n`);
    } catch {
      this.remove();
    }
  }

  remove(): void {
    for (const file of [this.#file, `${this.#file}.new`]) discard(file);
  }
}

/** The reports of all running workers of this folder. Deletes the files of dead ones. */
export function runningWorkers(folder: string): StatusReport[] {
  const reports: StatusReport[] = [];
  for (const file of namesIn(folder)) {
    const owner = readProcessTag(/^worker\.([\d-]+)\.status\.json(?:\.new)?$/.exec(file)?.[1] ?? "");
    if (owner === null) continue;
    if (!isRunning(owner, join(folder, file))) discard(join(folder, file));
    else if (file.endsWith(".json")) reports.push(...readReport(join(folder, file)));
  }
  return reports;
}

function readReport(file: string): StatusReport[] {
  try {
    return [StatusReport.parse(JSON.parse(readFileSync(file, "utf8")))];
  } catch {
    return [];
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
