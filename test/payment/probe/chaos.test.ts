import { expect, it } from "vitest";
import { runChaos } from "../chaos/run.ts";

const SEED = 12;

// Both at once: most of the time they wait until authorizations have expired.
it.concurrent.each(["evm", "svm"] as const)(
  "[PY6] [PY7] [PY8] [PY9] %s: kills, stalls, lost answers, old facilitators and cancellations leave each transfer as one job, credit or doubt",
  async (side) => {
    const load = { seconds: 12, jobs: 40, kills: 2, payers: 20, workers: 8 };
    const report = await runChaos({ side, ...load, seed: SEED, rpc: side === "svm", rest: 200, bundle: process.env["COORDINATOR_BUNDLE"] ?? null });
    expect(report.violations, `seed ${SEED}: ${JSON.stringify(report)}`).toEqual([]);
    expect(report).toMatchObject({ kills: load.kills, jobs: expect.toSatisfy((jobs: number) => jobs >= load.jobs) });
    expect(Math.min(report.transfers, report.books.completed)).toBeGreaterThan(0);
  },
  300_000,
);
