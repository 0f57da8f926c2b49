import { afterAll, describe, expect, test } from "vitest";
import { runHistory } from "./history.ts";
import { firstFound, mutantOf, notedSeed, removeMutants, SEARCHES } from "./mutant.ts";

afterAll(removeMutants);

// Only the noted seed is tried: a search takes up to minutes for each bug. A change of the histories makes noted seeds worthless, and then new ones must be
// searched.
describe("the simulation finds every planted bug, so it can fail", () => {
  for (const { bug, planOf } of SEARCHES) {
    test(`${bug.rule} ${bug.name}`, async () => {
      const seed = notedSeed(bug);
      const core = await mutantOf(bug);
      expect(firstFound(core, planOf, [seed]), "no longer the noted seed: `npm run simulate -- --planted` searches another one").toBe(seed);
      const plan = planOf(seed) ?? expect.unreachable();
      expect(runHistory(seed, { plan }).violation?.message, "the true core").toBeUndefined();
    });
  }

  test("a planted bug that no longer fits the source is an error", async () => {
    const bug = { name: "no such place", rule: "", edits: [{ file: "claim.ts", from: "no such text", to: "" }] };
    await expect(mutantOf(bug)).rejects.toThrow("must match once");
  });
});
