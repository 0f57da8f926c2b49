import { readFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { firstFound, mutantOf, removeMutants, SEARCHES } from "./mutant.ts";
import type { PlantedBug } from "./planted-bugs.ts";

/** Enough for the rarest of them, and a bug that is common is found within the first few. */
const SEEDS = 3_000;

/** The seed that found each bug last (`npm run simulate -- --planted` notes them): tried first, as most bugs are rare and the search is long. */
const FOUND: Record<string, number> = JSON.parse(readFileSync(new URL("found-seeds.json", import.meta.url), "utf8"));

function* seedsFor({ rule, name }: PlantedBug): Generator<number> {
  const found = FOUND[`${rule} ${name}`];
  if (found !== undefined) yield found;
  for (let seed = 1; seed <= SEEDS; seed++) yield seed;
}

afterAll(removeMutants);

// A change of the histories makes the noted seeds worthless; then each bug costs a search.
describe("the simulation finds every planted bug, so it can fail", { timeout: 60_000 }, () => {
  for (const { bug, planOf } of SEARCHES) {
    test(`${bug.rule} ${bug.name}`, async () => {
      expect(firstFound(await mutantOf(bug), planOf, seedsFor(bug)), `a seed up to ${SEEDS} that finds it`).not.toBeNull();
    });
  }

  test("a planted bug that no longer fits the source is an error", async () => {
    const bug = { name: "no such place", rule: "", edits: [{ file: "claim.ts", from: "no such text", to: "" }] };
    await expect(mutantOf(bug)).rejects.toThrow("must match once");
  });
});
