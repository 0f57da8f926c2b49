// The status of a worker, reduced from its notes: connections, jobs, tokens. Status lines and metrics show it, and the status file of a running worker, which
// `compute-router worker status` reads.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { JobType } from "../../protocol/job.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import type { SessionNote } from "../session/index.ts";
import { discard, replaceFile } from "./atomic-files.ts";
import type { WorkerNote } from "./desktop-worker.ts";
import { isRunning, namesIn, processTag, readProcessTag, thisProcess, workerProcesses } from "./worker-lock.ts";

/** How many jobs of one type ended in which way, and the milliseconds that they took. */
export type JobCounts = { completed: number; failed: number; cancelled: number; ms: number };

/** The work for one coordinator. Times are the wall clock in ms since the epoch. */
export type LinkStatus = {
  /** The name of the coordinator, see `coordinatorName`. */
  coordinator: string;
  link: "connecting" | "online" | "offline" | "stopped";
  /** Why it is offline or stopped. */
  cause: string | null;
  network: string | null;
  tier: Tier | null;
  authenticated: boolean;
  /** Registrations after the first. */
  reconnects: number;
  registered: boolean;
  job: { id: string; type: JobType; since: number; chars: number } | null;
  /** True while a job waits for the LLM runtime. */
  waits: boolean;
  jobs: Record<JobType, JobCounts>;
  rejections: Record<string, number>;
  /** Numbers of finished results by outcome: `accepted`, `duplicate`, `rejected` and `dropped`. */
  results: Record<string, number>;
  /** Why the last result was rejected or dropped. */
  lastRejection: string | null;
  /** How far this machine's clock is off, in ms, positive if it is ahead; null while it agrees or the difference is unknown. */
  clockOff: number | null;
  /** Tokens and milliseconds of all LLM answers. */
  tokens: number;
  tokenMs: number;
};

/** What a worker knows about itself. */
export type WorkerStatus = {
  draining: boolean;
  llm: { runtime: string; model: string } | null;
  links: readonly LinkStatus[];
};

const NO_JOBS: JobCounts = { completed: 0, failed: 0, cancelled: 0, ms: 0 };

/** The status of a worker that has just started. */
export function firstStatus(coordinators: readonly string[]): WorkerStatus {
  const links = coordinators.map((coordinator): LinkStatus => ({
    coordinator,
    link: "connecting",
    cause: null,
    network: null,
    tier: null,
    authenticated: false,
    reconnects: 0,
    registered: false,
    job: null,
    waits: false,
    jobs: { LLM_INFER: NO_JOBS, TASK: NO_JOBS },
    rejections: {},
    results: {},
    lastRejection: null,
    clockOff: null,
    tokens: 0,
    tokenMs: 0,
  }));
  return { draining: false, llm: null, links };
}

/** The status after a note. */
export function nextStatus(status: WorkerStatus, note: WorkerNote, now: number): WorkerStatus {
  switch (note.type) {
    case "runtime_ready":
      return { ...status, llm: { runtime: note.runtime, model: note.model } };
    case "runtime_lost":
      return { ...status, llm: null };
    case "runtime_missing":
    case "standby":
      return status;
    default: {
      const links = status.links.map((link) => (link.coordinator === note.coordinator ? nextLink(link, note, now) : link));
      return { ...status, links, draining: status.draining || note.type === "draining" };
    }
  }
}

function nextLink(link: LinkStatus, note: SessionNote, now: number): LinkStatus {
  switch (note.type) {
    case "connecting":
      return { ...link, link: "connecting" };
    case "online": {
      const { tier, authenticated } = note;
      const reconnects = link.reconnects + (link.registered ? 1 : 0);
      return { ...link, link: "online", cause: null, tier, authenticated, reconnects, registered: true, network: note.network ?? link.network };
    }
    case "tier":
      return { ...link, tier: note.tier };
    case "offline":
      return { ...link, link: "offline", cause: note.cause, waits: false };
    case "stopped":
      return { ...link, link: "stopped", cause: note.message, job: null, waits: false };
    case "job_waiting":
      return { ...link, waits: true };
    case "job_started":
      return { ...link, waits: false, job: { id: note.job_id, type: note.job_type, since: now, chars: 0 } };
    case "job_progress":
      return link.job === null ? link : { ...link, job: { ...link.job, chars: note.chars } };
    case "job_finished": {
      const { tokens, ms } = note;
      const spent = tokens === null ? {} : { tokens: link.tokens + tokens, tokenMs: link.tokenMs + ms };
      return { ...ended(link, "completed", ms), ...spent };
    }
    case "job_failed":
      return ended(link, "failed", link.job === null ? 0 : now - link.job.since);
    case "job_cancelled":
      return link.job?.id === note.job_id ? ended(link, "cancelled", now - link.job.since) : { ...link, waits: false };
    case "job_rejected":
      return { ...link, waits: false, rejections: counted(link.rejections, note.reason) };
    case "job_acknowledged":
      return { ...link, results: counted(link.results, note.status), ...(note.status === "rejected" && { lastRejection: rejectionOf(note) }) };
    case "result_dropped":
      return { ...link, results: counted(link.results, "dropped"), lastRejection: note.reason };
    case "clock":
      return { ...link, clockOff: note.verdict === "right" ? null : note.off_ms };
    case "draining":
    case "woke":
    case "warning":
      return link;
    default:
      return note satisfies never;
  }
}

function ended(link: LinkStatus, outcome: "completed" | "failed" | "cancelled", ms: number): LinkStatus {
  if (link.job === null) return link;
  const { type } = link.job;
  const counts = link.jobs[type];
  return { ...link, job: null, jobs: { ...link.jobs, [type]: { ...counts, [outcome]: counts[outcome] + 1, ms: counts.ms + Math.max(0, ms) } } };
}

/** The receipt check that a rejected result failed, or its error. */
function rejectionOf({ error, message }: Extract<SessionNote, { type: "job_acknowledged" }>): string {
  const [check] = error === "invalid_receipt" && message !== null ? message.split(":") : [];
  return check ?? error ?? "no reason given";
}

function counted(counts: Record<string, number>, name: string): Record<string, number> {
  return { ...counts, [name]: (counts[name] ?? 0) + 1 };
}

const Count = z.int().min(0);
const Outcomes = z.object({ completed: Count, failed: Count, cancelled: Count });

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
      jobs: z.object({ LLM_INFER: Outcomes, TASK: Outcomes }),
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

function outcomes({ completed, failed, cancelled }: z.infer<typeof Outcomes>): z.infer<typeof Outcomes> {
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

/** What is known of a running worker that has no report. */
export const NO_REPORT = "runs; its report cannot be written or read";

/** The running workers of this folder that have no report, as on a full disk: only their locks prove that they run. `ids` are the names of their workers. */
export function unreportedWorkers(folder: string): { pid: number; ids: string[] }[] {
  const reported = new Set(runningWorkers(folder).map(({ pid }) => pid));
  return workerProcesses(folder).filter(({ pid }) => !reported.has(pid));
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
