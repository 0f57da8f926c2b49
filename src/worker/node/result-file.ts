// The shelf of a desktop worker: the results that the coordinator has not acknowledged yet, in a file. On a job's way: from the run to its acknowledgement
// [WS10].
import { readFileSync, rmSync } from "node:fs";
import * as z from "zod";
import { type KeptResult, type ResultShelf, withinBounds } from "../session/index.ts";
import { replaceFile } from "./atomic-files.ts";

const Content = z.object({
  version: z.literal(1),
  results: z.array(z.object({ jobId: z.string(), attempt: z.int().min(1), frame: z.string(), completedAt: z.number() })),
});

/**
 * A shelf in a file. Results survive a restart and kill -9, but not a power cut; then the coordinator runs the job again. The file exists only while there are
 * results, only its owner can read it, and it is replaced in one step.
 */
export class ResultFile implements ResultShelf {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  load(): readonly KeptResult[] {
    try {
      return withinBounds(Content.parse(JSON.parse(readFileSync(this.#file, "utf8"))).results);
    } catch {
      // Without a usable file the coordinator gives the job to another worker.
      return [];
    }
  }

  save(results: readonly KeptResult[]): void {
    if (results.length === 0) return rmSync(this.#file, { force: true });
    // Only one process has the lock, so a fixed name for the draft is enough, and no drafts accumulate.
    replaceFile(this.#file, JSON.stringify({ version: 1, results }));
  }
}
