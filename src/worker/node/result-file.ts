import { readFileSync, rmSync } from "node:fs";
import * as z from "zod";
import { type KeptResult, type ResultShelf, withinBounds } from "../session/index.ts";
import { replaceFile } from "./worker-config.ts";

const Content = z.object({
  version: z.literal(1),
  results: z.array(z.object({ jobId: z.string(), attempt: z.int().min(1), frame: z.string(), completedAt: z.number() })),
});

/**
 * A shelf in a file: results survive a restart and kill -9 (not a power cut, for which the coordinator runs the job again). The file is
 * there only while something is kept, readable by its owner only, and replaced in one step.
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
      // No file, or one that nobody can use: the coordinator gives the job to another worker.
      return [];
    }
  }

  save(results: readonly KeptResult[]): void {
    if (results.length === 0) return rmSync(this.#file, { force: true });
    // One process has the lock, so one name for the draft is enough and nothing piles up.
    replaceFile(this.#file, JSON.stringify({ version: 1, results }));
  }
}
