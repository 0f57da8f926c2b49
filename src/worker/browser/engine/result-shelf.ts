import * as z from "zod";
import { type KeptResult, type ResultShelf, withinBounds } from "../../session/kept-result.ts";
import type { KeptStore } from "./kept-store.ts";

const Kept = z.object({ jobId: z.string(), attempt: z.int(), frame: z.string(), completedAt: z.number() });

/**
 * Finished results that outlive the tab. The session wants them at once and storage answers later, so they are read before the first session and
 * written behind it: a tab that dies in the few milliseconds between keeps the result only if the coordinator has it already.
 */
export class IndexedShelf implements ResultShelf {
  readonly #database: Storage | null;
  readonly #onSave: (results: readonly KeptResult[]) => void;
  readonly #onFailure: (cause: unknown) => void;
  #results: readonly KeptResult[];

  private constructor(database: Storage | null, results: readonly KeptResult[], hooks: Hooks) {
    this.#database = database;
    this.#results = results;
    this.#onSave = hooks.onSave;
    this.#onFailure = hooks.onFailure;
  }

  static async open(database: Storage | null, hooks: Hooks): Promise<IndexedShelf> {
    const stored = (await database?.all("results")) ?? [];
    const results = stored.flatMap((value) => {
      const kept = Kept.safeParse(value);
      return kept.success ? [kept.data] : [];
    });
    return new IndexedShelf(database, withinBounds(results.sort((a, b) => a.completedAt - b.completedAt)), hooks);
  }

  load(): readonly KeptResult[] {
    return this.#results;
  }

  save(results: readonly KeptResult[]): void {
    const before = new Set(this.#results.map(keyOf));
    const now = new Set(results.map(keyOf));
    const fresh = results.filter((result) => !before.has(keyOf(result)));
    this.#results = results;
    const gone = [...before].filter((key) => !now.has(key));
    void this.#database
      ?.change(
        "results",
        fresh.map((result) => [keyOf(result), result]),
        gone,
      )
      .catch(this.#onFailure);
    this.#onSave(fresh);
  }
}

type Storage = Pick<KeptStore, "all" | "change">;

type Hooks = {
  /** Called with the results that were not there before. */
  onSave: (fresh: readonly KeptResult[]) => void;
  onFailure: (cause: unknown) => void;
};

function keyOf({ jobId, attempt }: KeptResult): string {
  return `${jobId} ${attempt}`;
}
