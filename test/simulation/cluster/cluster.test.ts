import { describe, expect, test } from "vitest";
import { BUGS, type ClusterPlan, homeOf, runCluster } from "./cluster.ts";

const SEEDS = 10;

/** Many moves between hubs that die, on lines that break and between which requests are lost or late. */
const troubled = (seed: number, hubs: number): ClusterPlan => ({
  ...{ seed, hubs, workers: 10 * hubs, rate: 15 * hubs, seconds: 8, skew: 0.7, execute: 400 },
  faults: { crashes: 0.15 * hubs, breaks: 0.75 * hubs, lost: 0.05 },
});

describe("several hubs behind one wire", () => {
  test.each([1, 4, 16])("[JB6] [JB9] [WS12] %i hubs under faults: one owner and one end of each job, none is lost, and its id leads to it", (hubs) => {
    let [moved, crashes, completed] = [0, 0, 0];
    for (let seed = 1; seed <= (hubs > 4 ? 2 : SEEDS); seed++) {
      const { stats, violation } = runCluster(troubled(seed, hubs));
      expect(violation?.message ?? null, `seed ${seed}`).toBeNull();
      moved += stats.moved;
      crashes += stats.crashes;
      completed += stats.completed;
    }
    expect(completed).toBeGreaterThan(500);
    expect(crashes).toBeGreaterThan(5);
    expect(moved > 50).toBe(hubs > 1);
  });

  test.each(BUGS)("a design that %s is found", (bug) => {
    const found = Array.from({ length: 60 }, (_, n) => n + 1).find((seed) => runCluster({ ...troubled(seed, 4), bug }).violation !== null);
    expect(found).toBeDefined();
  });

  test("[JB2] 16 hubs carry 15 times what one carries, and without trouble hardly a job moves", () => {
    const calm = { crashes: 0, breaks: 0, lost: 0 };
    const at = (hubs: number) => runCluster({ seed: 1, hubs, workers: 100 * hubs, rate: 150 * hubs, seconds: 4, skew: 0, faults: calm, execute: 300 }).stats;
    const [one, many] = [at(1), at(16)];
    expect(many.inTime / one.inTime).toBeGreaterThan(15);
    expect(many.moved / many.accepted).toBeLessThan(0.05);
  });

  test("a hub more takes its share of the keys, and no other key gets another home", () => {
    const keys = Array.from({ length: 2_000 }, (_, n) => `key-${n}`);
    const changed = keys.filter((key) => homeOf(key, 4) !== homeOf(key, 5));
    expect(changed.every((key) => homeOf(key, 5) === 4)).toBe(true);
    expect(changed.length).toBeGreaterThan(300);
    expect(changed.length).toBeLessThan(500);
  });
});
