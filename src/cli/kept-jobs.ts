// The local list of jobs on disk, for `job cancel` and `jobs`: what the commands of this machine committed, with the tokens that cancel it.
import { appendFileSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { JobType } from "../protocol/job.ts";
import { parseJson } from "../protocol/text.ts";
import type { JobList, LocalJob } from "../sdk/index.ts";
import { codeOf, makeFolder, replaceFile } from "../worker/node/worker-config.ts";
import { printError } from "./print.ts";

const Kept = z.object({
  jobId: z.uuid(),
  jobType: JobType,
  createdAt: z.iso.datetime(),
  cancelToken: z.string().nullable(),
  baseUrl: z.string(),
  userId: z.string(),
});

/** The jobs that the list keeps when it is shortened, and the size in bytes from which it is: a job has about 250 bytes. */
const SHORTENED = { jobs: 1_000, from: 512 * 1_024 };

/** The list of jobs in a configuration folder: one JSON object per line, in a file that only its owner can read. */
export function keptJobs(folder: string): JobList {
  const file = join(folder, "jobs.jsonl");
  return {
    add: (job) => {
      try {
        makeFolder(folder);
        appendFileSync(file, lineOf(job), { mode: 0o600 });
        if (statSync(file).size > SHORTENED.from) replaceFile(file, read(file).slice(-SHORTENED.jobs).map(lineOf).join(""));
      } catch (error) {
        printError(`cannot keep the job in ${file} (${codeOf(error)}), so \`job cancel\` will not know it`);
      }
    },
    all: () => read(file),
  };
}

function lineOf(job: LocalJob): string {
  return `${JSON.stringify(job)}\n`;
}

/** The jobs of a file. A line that cannot be read is left out; a file that is not there has none. */
function read(file: string): LocalJob[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
  return text.split("\n").flatMap((line) => Kept.safeParse(parseJson(line)).data ?? []);
}
