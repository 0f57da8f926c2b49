import { afterAll, describe, expect, test } from "vitest";
import { firstFound, MOST_SEEDS, mutantOf, removeMutants, SEARCHES, seedsFor } from "./mutant.ts";

afterAll(removeMutants);

// A change of the histories makes noted seeds worthless. Then their bugs cost a search each, until `npm run simulate -- --planted` notes new ones.
describe("the simulation finds every planted bug, so it can fail", () => {
  for (const { bug, planOf } of SEARCHES) {
    test(`${bug.rule} ${bug.name}`, async () => {
      expect(firstFound(await mutantOf(bug), planOf, seedsFor(bug)), `a seed up to ${MOST_SEEDS} that finds it`).not.toBeNull();
    });
  }

  test("a planted bug that no longer fits the source is an error", async () => {
    const bug = { name: "no such place", rule: "", edits: [{ file: "claim.ts", from: "no such text", to: "" }] };
    await expect(mutantOf(bug)).rejects.toThrow("must match once");
  });
});
