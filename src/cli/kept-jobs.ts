// The list of the jobs that commands of this machine have committed, in the configuration folder. On a job's way: after the commit, so that `job cancel` and
// `jobs` know the job.
import { appendFileSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { JobType } from "../protocol/job.ts";
import { parseJson } from "../protocol/json.ts";
import type { JobList, LocalJob } from "../sdk/index.ts";
import { makeFolder } from "../worker/node/atomic-files.ts";
import { codeOf } from "../worker/node/error-code.ts";
import { takeFileLock } from "../worker/node/worker-lock.ts";
import { CliError, EXIT, printError } from "./command.ts";

const Kept = z.object({
  jobId: z.uuid(),
  jobType: JobType,
  createdAt: z.iso.datetime(),
  cancelToken: z.string().nullable(),
  baseUrl: z.string(),
  userId: z.string(),
});

/** The size in bytes from which the list goes on in a new file. A job has about 250 bytes, so the list has the newest 1,000 jobs at least. */
const FULL = 256 * 1_024;

/**
 * The list of jobs in a configuration folder: one JSON object per line, in files that only their owner can read. A full file takes the place of the old one in
 * one step, and nothing is ever rewritten. So a line that another process adds meanwhile is in one of the two, and a process that is killed loses none.
 */
export function keptJobs(folder: string): JobList {
  const file = join(folder, "jobs.jsonl");
  const old = join(folder, "jobs.old.jsonl");
  return {
    add: (job) => {
      try {
        makeFolder(folder);
        // It begins with a line break too: if the disk was full, the line before may have none.
        appendFileSync(file, `\n${JSON.stringify(job)}\n`, { mode: 0o600 });
      } catch (error) {
        return printError(`cannot store the job in ${file} (${codeOf(error)}), so \`job cancel\` will not know it`);
      }
      makeRoom(folder, file, old);
    },
    all: () => {
      // The new file first: if it takes the place of the old one meanwhile, its jobs are read twice and not missed.
      const jobs = [...read(file), ...read(old)];
      return [...new Map(jobs.map((job) => [job.jobId, job])).values()];
    },
  };
}

/** Makes a full file the old one. The lock is for the size only: another process may have done it since, and then the file is new. */
function makeRoom(folder: string, file: string, old: string): void {
  try {
    if (statSync(file).size <= FULL) return;
    const lock = takeFileLock(folder, "jobs");
    if (!lock.ok) return;
    try {
      if (statSync(file).size > FULL) renameSync(file, old);
    } finally {
      lock.release();
    }
  } catch {
    // The job is stored. The next one makes room.
  }
}

/** The jobs of a file. A line that cannot be read is left out; a file that is not there has none. */
function read(file: string): LocalJob[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw new CliError(EXIT.error, `cannot read the list of jobs ${file} (${codeOf(error)})`, { cause: error });
  }
  return text.split("\n").flatMap((line) => Kept.safeParse(parseJson(line)).data ?? []);
}
