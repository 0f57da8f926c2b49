import { broken } from "./violation.ts";
import type { World } from "./world.ts";

export type Row = { id: string; rev: number; terminal: boolean; status: string };

/**
 * D1: takes a row only if its revision is higher and the stored one is not terminal. While faults last, a batch may fail before it is
 * applied, be applied and lose its answer, or come late.
 */
export class Database {
  readonly #world: World;
  readonly rows = new Map<string, Row>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Answers `done(true)` when the batch was applied and the answer came through. */
  write(batch: readonly Row[], done: (ok: boolean) => void): void {
    const { agenda, random, plan, calm } = this.#world;
    const unlucky = !calm && random.chance(plan.database);
    const trouble = unlucky ? random.pick(["fails", "loses", "slow"] as const) : "none";
    const delay = trouble === "slow" ? random.between(1_000, 5_000) : random.between(2, 40);
    agenda.after(delay, () => {
      if (trouble !== "fails") for (const row of batch) this.#apply(row);
      agenda.after(random.between(1, 10), () => done(trouble === "none" || trouble === "slow"));
    });
  }

  #apply(row: Row): void {
    const stored = this.rows.get(row.id);
    if (stored !== undefined && (stored.terminal || stored.rev >= row.rev)) {
      // The same revision must always say the same.
      if (stored.rev === row.rev && stored.status !== row.status)
        broken("I8", `${row.id} has two contents at revision ${row.rev}: ${stored.status}, ${row.status}`);
      if (stored.terminal && row.terminal && stored.status !== row.status) broken("I4", `${row.id} ended twice: ${stored.status}, ${row.status}`);
      return;
    }
    this.rows.set(row.id, row);
  }
}
