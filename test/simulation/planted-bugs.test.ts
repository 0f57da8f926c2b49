import { describe, expect, test } from "vitest";
import { runHistory } from "./history.ts";
import { mutantOf } from "./mutant.ts";
import { freePlanOf, planOf } from "./plan.ts";
import { PLANTED_BUGS, PLANTED_CONTEXT_BUGS, PLANTED_MONEY_BUGS } from "./planted-bugs.ts";

/** Enough for the rarest of them, and a bug that is common is found within the first few. */
const SEEDS = 3_000;

describe("the simulation can fail: it finds a bug that is planted", () => {
  for (const bug of PLANTED_BUGS) {
    test(`${bug.rule} ${bug.name}`, async () => {
      const core = await mutantOf(bug);
      for (let seed = 1; seed <= SEEDS; seed++) if (runHistory(seed, { core, plan: freePlanOf(seed) }).violation !== null) return;
      expect.fail(`${SEEDS} seeds did not find it`);
    });
  }

  for (const bug of PLANTED_CONTEXT_BUGS) {
    test(`${bug.rule} ${bug.name}`, async () => {
      const core = await mutantOf(bug);
      for (let seed = 1; seed <= SEEDS; seed++) {
        const plan = planOf(seed);
        if (plan.contexts !== null && runHistory(seed, { core, plan }).violation !== null) return;
      }
      expect.fail(`${SEEDS} seeds did not find it`);
    });
  }

  for (const bug of PLANTED_MONEY_BUGS) {
    test(`${bug.rule} ${bug.name}`, async () => {
      const core = await mutantOf(bug);
      for (let seed = 1; seed <= SEEDS; seed++) {
        const plan = planOf(seed);
        if (plan.paying !== null && runHistory(seed, { core, plan }).violation !== null) return;
      }
      expect.fail(`${SEEDS} seeds did not find it`);
    });
  }

  test("a planted bug that no longer fits the source is an error", async () => {
    const bug = { name: "no such place", rule: "", edits: [{ file: "claim.ts", from: "no such text", to: "" }] };
    await expect(mutantOf(bug)).rejects.toThrow("must match once");
  });
});
