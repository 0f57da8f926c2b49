import { afterAll, describe, expect, test } from "vitest";
import { runHistory } from "./history.ts";
import { firstFound, MOST_SEEDS, mutantOf, removeMutants, SEARCHES, seedsFor } from "./mutant.ts";

afterAll(removeMutants);

// A change of the histories makes noted seeds worthless. Then their bugs cost a search each, until `npm run simulate -- --planted` notes new ones.
describe("the simulation finds every planted bug, so it can fail", () => {
  for (const { bug, planOf } of SEARCHES) {
    test(`${bug.rule} ${bug.name}`, async () => {
      const seed = firstFound(await mutantOf(bug), planOf, seedsFor(bug));
      if (seed === null) return expect.unreachable(`no seed up to ${MOST_SEEDS} finds it`);
      const plan = planOf(seed) ?? expect.unreachable();
      expect(runHistory(seed, { plan }).violation?.message, "the true core").toBeUndefined();
    });
  }

  test("a planted bug that no longer fits the source is an error", async () => {
    const bug = { name: "no such place", rule: "", edits: [{ file: "claim.ts", from: "no such text", to: "" }] };
    await expect(mutantOf(bug)).rejects.toThrow("must match once");
  });
});
