// One abuser with any number of keys beside honest workers: the guarantees of docs/threats.md, in simulated time [JB11].
import { describe, expect, test } from "vitest";
import { QUEUE_SIZE } from "../support/queue-size.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { runHistory } from "./history.ts";
import { freePlanOf, HONEST, type Personality, type Plan, type WorkerPlan } from "./plan.ts";
import { Random } from "./random.ts";
import type { Stats } from "./world.ts";

/** How long the load lasts, ms, and the pause between two jobs: 10 jobs a second. */
const LOAD_MS = 60_000;
const PAUSE_MS = 100;
/** One job a second, where every job waits for its end: the simulation bounds how often the hub may wake up. */
const LONELY_PAUSE_MS = 1_000;

const BUSY: Personality = { ...HONEST, run: [100, 1_500], progresses: 0 };
const ABUSER: Personality = { ...BUSY, run: [1, 20], redial: [0, 50] };

type Crowd = { count: number; personality: Personality; proven?: boolean };

/** Jobs of a hundred users beside these workers: `h…` honest, each in its own network, and `a…` abusers, all in one. */
function planOf(seed: number, honest: Crowd, abusers: Crowd, pause = PAUSE_MS): Plan {
  const random = new Random(seed);
  const byte = () => random.between(0, 255).toString(16).padStart(2, "0");
  const some = (name: string, { count, personality }: Crowd) =>
    Array.from({ length: count }, (_, index): WorkerPlan => ({ key: `${name}${index}`, personality, capabilities: ["TASK"], tier: "Open", arrives: index }));
  const workers = [...some("h", honest), ...some("a", abusers)];
  const jobs = Array.from({ length: LOAD_MS / pause }, (_, index): Plan["jobs"][number] => ({
    ...{ id: `${byte()}-j${index}`, at: 1_000 + index * pause, jobType: "TASK", policy: "CHEAP", privacyClass: "PUBLIC" },
    ...{ userId: `user${random.between(0, 99)}`, cancelAfter: null },
  }));
  const quiet = { crashes: 0, evictions: 0, breaks: 0, tiers: 0, pairs: 0, diskFails: 0, database: 0, alarmLate: 0, hibernates: false, latency: 2 };
  const networks = Object.fromEntries(workers.filter(({ key }) => key.startsWith("a")).map(({ key }) => [key, "abuser"]));
  const newcomers = workers.filter(({ key }) => !(key.startsWith("h") ? honest : abusers).proven).map(({ key }) => key);
  return {
    ...freePlanOf(seed),
    ...quiet,
    ...{
      workers,
      jobs,
      pairings: {},
      faults: LOAD_MS + 2_000,
      settings: { stake: false, receiptPolicy: "strict", queue: QUEUE_SIZE, settlements: 4, chain: false, clientShares: true },
      paying: null,
      contexts: null,
      models: null,
    },
    market: { networks, newcomers, unsigned: [] },
  };
}

function play(seed: number, plan: Plan): Stats {
  const { violation, stats } = runHistory(seed, { plan });
  expect(violation?.message).toBeUndefined();
  return stats;
}

/** The share of the jobs that completed at their first or second attempt, and the share of the claims that honest workers got. */
function shares({ jobs, completedIn, claims }: Stats): { done: number; honest: number } {
  const all = [...claims.values()].reduce((sum, count) => sum + count, 0);
  return { done: ((completedIn.get(1) ?? 0) + (completedIn.get(2) ?? 0)) / jobs, honest: (claims.get("h") ?? 0) / all };
}

const PROVEN: Crowd = { count: 20, personality: BUSY, proven: true };

const ABUSERS: readonly [string, Crowd][] = [
  ["20 ever-fresh keys that fail each job for good", { count: 20, personality: { ...ABUSER, failsForGood: 1, renews: true } }],
  ["20 ever-fresh keys that answer each job with an error", { count: 20, personality: { ...ABUSER, workerError: 1, renews: true } }],
  ["60 that acknowledge and hang", { count: 60, personality: { ...ABUSER, hangs: 1 } }],
  ["60 that never acknowledge", { count: 60, personality: { ...ABUSER, hangs: 1, ackDelay: [90_000, 99_000] } }],
  ["20 that reject everything", { count: 20, personality: { ...ABUSER, rejects: 1 } }],
  ["20 ever-fresh keys that reject everything", { count: 20, personality: { ...ABUSER, rejects: 1, renews: true } }],
  ["20 ever-fresh keys that acknowledge and then reject everything", { count: 20, personality: { ...ABUSER, rejectsLate: 1, renews: true } }],
  ["20 that do two jobs well and fail from then on", { count: 20, personality: { ...ABUSER, behaves: 2, failsForGood: 1 } }],
  ["20 that do two jobs well, fail one, and come back as others", { count: 20, personality: { ...ABUSER, behaves: 2, failsForGood: 1, renews: true } }],
  ["20 that send invalid receipts", { count: 20, personality: { ...ABUSER, badReceipt: 1 } }],
  ["20 that have proven themselves and fail from then on", { count: 20, personality: { ...ABUSER, failsForGood: 1 }, proven: true }],
];

describe("one abuser beside 20 proven workers and 10 jobs a second", () => {
  for (const [title, crowd] of ABUSERS) {
    test(`[JB11] ${title}: 95 % of the jobs complete at their first or second attempt, honest workers get 80 % of the claims`, () => {
      const { done, honest } = shares(play(1, planOf(1, PROVEN, crowd)));
      expect(done).toBeGreaterThanOrEqual(0.95);
      expect(honest).toBeGreaterThanOrEqual(0.8);
    });
  }
});

describe("one abuser where nobody is proven yet", () => {
  for (const [title, crowd] of ABUSERS.slice(0, 7)) {
    test(`[JB11] ${title}: the honest ones prove themselves meanwhile`, () => {
      const { done, honest } = shares(play(2, planOf(2, { ...PROVEN, proven: false }, crowd)));
      expect(done).toBeGreaterThanOrEqual(0.95);
      expect(honest).toBeGreaterThanOrEqual(0.8);
    });
  }
});

describe("an abuser who is alone", () => {
  for (const [title, crowd] of ABUSERS.slice(0, 5)) {
    test(`[JB11, JB9] ${title}: every job ends`, () => {
      const stats = play(3, planOf(3, { count: 0, personality: BUSY }, crowd, LONELY_PAUSE_MS));
      expect(stats.completed + stats.failed).toBe(stats.jobs);
      expect(stats.completed).toBe(0);
    });
  }

  test("[WS9, LM1] ever-fresh keys that reject everything: a job remembers the last ones only, and a worker that comes late still gets the jobs", () => {
    const plan = planOf(
      5,
      { count: 1, personality: BUSY },
      { count: 3, personality: { ...ABUSER, ackDelay: [1, 5], rejects: 1, renews: true } },
      LONELY_PAUSE_MS,
    );
    const [worker, ...abusers] = plan.workers as [WorkerPlan, ...WorkerPlan[]];
    const stats = play(5, { ...plan, workers: [...abusers, { ...worker, arrives: 20_000 }] });
    expect(stats.claims.get("a")).toBeGreaterThan(50 * LIMITS.keysPerJob);
    expect(stats.completed / stats.jobs).toBeGreaterThan(0.9);
  });
});

describe("an honest newcomer beside 20 proven workers and 10 jobs a second", () => {
  test.each([
    [1, 30_000],
    [20, 60_000],
  ])("[JB11] %i of them leave probation within %i ms", (count, within) => {
    const plan = planOf(4, PROVEN, { count: 0, personality: BUSY });
    const newcomers = Array.from({ length: count }, (_, index): WorkerPlan => ({ ...(plan.workers[0] as WorkerPlan), key: `new${index}`, arrives: 1_000 }));
    const { stats } = runHistory(4, {
      plan: { ...plan, workers: [...plan.workers, ...newcomers], market: { networks: {}, unsigned: [], newcomers: newcomers.map(({ key }) => key) } },
    });
    expect(stats.provenAfter.size).toBe(count);
    expect(Math.max(...stats.provenAfter.values())).toBeLessThan(within);
  });
});
