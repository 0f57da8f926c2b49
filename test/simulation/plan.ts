// The plan of a seed: workers, jobs, faults and rates, all decided before the history starts.
import type { JobType } from "../../src/protocol/job.ts";
import type { Tier } from "../../src/protocol/worker-messages.ts";
import type { DispatchSettings } from "../../src/coordinator/dispatch/index.ts";
import { QUEUE_SIZE } from "../support/queue-size.ts";
import { type PayingPlan, payingPlanOf } from "./paying-plan.ts";
import { type ContextPlan, contextPlanOf } from "./contexts.ts";
import { type ModelPlan, modelPlanOf } from "./models.ts";
import { type MarketPlan, marketPlanOf } from "./market.ts";
import { Random } from "./random.ts";
import { queueSettingsOf } from "./shares.ts";

/** What kind of worker this is: chances per job unless said otherwise. */
export type Personality = {
  name: string;
  /** Announces `ack` [WS9]. */
  acks: boolean;
  /** Lists what it has in `resume`, keeps results until they are acknowledged, and names attempts [WS10]. */
  resumes: boolean;
  /** Time to run a job, ms. */
  run: readonly [number, number];
  /** Time to acknowledge, ms. */
  ackDelay: readonly [number, number];
  hangs: number;
  rejects: number;
  /** Rejects the job after it has acknowledged it. */
  rejectsLate: number;
  failsRetryable: number;
  failsForGood: number;
  badReceipt: number;
  oversized: number;
  workerError: number;
  duplicates: number;
  progresses: number;
  /** Dies for ever while it has the job. */
  dies: number;
  /** Drops its socket while it has the job and comes back. */
  flaps: number;
  /** Opens a second socket while the first still stands. */
  doubles: number;
  /** Stops its heartbeats and reads nothing, the socket still open. */
  goesSilent: number;
  /** Drains after a job, and comes back later. */
  drains: number;
  /** Registers again on the same socket with other capabilities. */
  changes: number;
  /** Sends results for jobs that it never held. */
  intrudes: number;
  /** Lists entries of `resume` twice. */
  stutters: number;
  /** Time until it dials again, ms. */
  redial: readonly [number, number];
  /** Comes back with a key that nobody has seen after each job. */
  renews: boolean;
  /** Jobs that a key does well before its habits begin. */
  behaves: number;
};

export const HONEST: Personality = {
  name: "honest",
  acks: true,
  resumes: true,
  run: [20, 3_000],
  ackDelay: [1, 60],
  hangs: 0,
  rejects: 0,
  rejectsLate: 0,
  failsRetryable: 0,
  failsForGood: 0,
  badReceipt: 0,
  oversized: 0,
  workerError: 0,
  duplicates: 0,
  progresses: 0.2,
  dies: 0,
  flaps: 0,
  doubles: 0,
  goesSilent: 0,
  drains: 0,
  changes: 0,
  intrudes: 0,
  stutters: 0,
  redial: [0, 5_000],
  renews: false,
  behaves: 0,
};

const SPEC_ONLY: Partial<Personality> = { acks: false, resumes: false, progresses: 0 };

const KINDS: readonly Personality[] = [
  HONEST,
  HONEST,
  HONEST,
  { ...HONEST, ...SPEC_ONLY, name: "spec-only" },
  { ...HONEST, ...SPEC_ONLY, name: "spec-only", flaps: 0.1, duplicates: 0.1 },
  { ...HONEST, name: "slow", run: [5_000, 70_000], ackDelay: [1, 6_000], progresses: 0.5 },
  { ...HONEST, ...SPEC_ONLY, name: "slow spec-only", run: [5_000, 70_000] },
  { ...HONEST, name: "long", run: [10_000, 55_000], drains: 0.2, redial: [0, 20_000] },
  { ...HONEST, name: "hanging", hangs: 0.6, ackDelay: [1, 9_000] },
  { ...HONEST, name: "dying", dies: 0.5 },
  { ...HONEST, name: "flapping", flaps: 0.6, run: [20, 12_000], redial: [0, 25_000], duplicates: 0.2 },
  { ...HONEST, name: "rejecting", rejects: 0.7 },
  { ...HONEST, name: "refusing all", rejects: 1, ackDelay: [1, 30] },
  { ...HONEST, name: "failing", failsRetryable: 0.4, failsForGood: 0.1, workerError: 0.1 },
  { ...HONEST, name: "failing all", failsRetryable: 1, run: [1, 40] },
  { ...HONEST, name: "bad signer", badReceipt: 0.6, duplicates: 0.4, run: [20, 400] },
  { ...HONEST, name: "oversized", oversized: 0.5, duplicates: 0.3 },
  { ...HONEST, name: "stuttering", duplicates: 0.5, stutters: 0.5, flaps: 0.3 },
  { ...HONEST, name: "intruding", intrudes: 0.5 },
  { ...HONEST, name: "falling silent", goesSilent: 0.4, redial: [0, 20_000] },
  { ...HONEST, name: "draining", drains: 0.5, flaps: 0.1 },
  { ...HONEST, name: "changing", changes: 0.5 },
  { ...HONEST, name: "endless", hangs: 1, progresses: 1 },
  { ...HONEST, name: "doubling", doubles: 0.5, run: [20, 8_000] },
];

export type WorkerPlan = { key: string; personality: Personality; capabilities: readonly JobType[]; tier: Tier; arrives: number };
type JobPlan = {
  id: string;
  at: number;
  jobType: JobType;
  policy: "FAST" | "CHEAP";
  privacyClass: "PUBLIC" | "PRIVATE";
  userId: string;
  cancelAfter: number | null;
};

/** Everything that a seed decides before its history starts. Chances are per second unless said otherwise. */
export type Plan = {
  settings: DispatchSettings;
  workers: WorkerPlan[];
  jobs: JobPlan[];
  /** The user's paired keys at the start. */
  pairings: Record<string, string[]>;
  /** How long faults happen, ms. */
  faults: number;
  latency: number;
  /** Whether the hub loses its memory whenever it was idle for 10 s. */
  hibernates: boolean;
  crashes: number;
  evictions: number;
  breaks: number;
  /** Of the breaks: how many are noticed late. */
  halfOpen: number;
  tiers: number;
  pairs: number;
  /** Commits that the disk refuses: memory is rebuilt, sockets stay. */
  diskFails: number;
  /** Per drain of the outbox. */
  database: number;
  /** The worst lateness of an alarm, ms. */
  alarmLate: number;
  /** Null where nobody pays. */
  paying: PayingPlan | null;
  /** Null where every job fits every worker. */
  contexts: ContextPlan | null;
  /** Null where no worker announces a model. */
  models: ModelPlan | null;
  /** Null where every worker has a network of its own and is proven at the start. */
  market: MarketPlan | null;
};

const USERS = ["ann", "bob", "cyd"] as const;
const TIERS: readonly Tier[] = ["Open", "Open", "Verified", "Sentinel"];

/** The plan of a seed. Every kind of fault is left out of some seeds, so that none hides another. */
export function planOf(seed: number): Plan {
  const plan = withMistakes(seed, withChain(seed, withLate(seed, crowded(seed, fullPlanOf(seed)))));
  // Of its own stream too.
  const marketed = new Random(seed + 0xfee).chance(0.5) ? withMarket(seed, plan) : plan;
  return new Random(seed + 0x3de).chance(0.3) ? { ...marketed, models: modelPlanOf(seed, plan.workers) } : marketed;
}

/** The same plan, for some seeds with a queue that is full now and then. */
function crowded(seed: number, plan: Plan): Plan {
  return { ...plan, settings: { ...plan.settings, ...queueSettingsOf(seed) } };
}

/** The same plan; in some of those with money, outcomes are told late, or paid jobs are cancelled. */
function withLate(seed: number, plan: Plan): Plan {
  if (plan.paying === null) return plan;
  const random = new Random(seed + 0x1a7e);
  const reportsLate = random.chance(0.4) ? random.next() : 0;
  const cancelsJobs = random.chance(0.3) ? random.next() / 2 : 0;
  return { ...plan, paying: { ...plan.paying, reportsLate, cancelsJobs } };
}

/** The same plan; in some of those with money, the hub can read the chain. */
function withChain(seed: number, plan: Plan): Plan {
  const random = new Random(seed + 0xc4a0);
  if (plan.paying === null || random.chance(0.7)) return plan;
  const paying = { ...plan.paying, chainDown: random.pick([0, 0.5, 0.9]), finality: random.pick([0, 1_000, 30_000]) };
  return { ...plan, settings: { ...plan.settings, chain: true }, paying };
}

/** The same plan; in some of those with money, a bug tells of settlements that nobody asked for, or the chain can be read only from some time on. */
function withMistakes(seed: number, plan: Plan): Plan {
  if (plan.paying === null) return plan;
  const random = new Random(seed + 0xb06);
  const mistakes = random.chance(0.15) ? random.next() / 2 : 0;
  if (!random.chance(0.15)) return { ...plan, paying: { ...plan.paying, mistakes } };
  // Many settlements are assumed before then, and their money never moves.
  const orders = plan.paying.orders.map((order) => (random.chance(0.8) ? { ...order, cancelAt: order.at + random.between(100, 3_000) } : order));
  const settling = { settleTrouble: 0.6, settleTroubles: ["error before", "error before", "loses"] } as const;
  const chainFrom = random.between(Math.floor(plan.faults / 3), plan.faults * 2);
  const workers = plan.workers.map((worker) => ({ ...worker, personality: { ...worker.personality, failsForGood: 0.5 } }));
  const paying = { ...plan.paying, ...settling, orders, verifyTrouble: 0, routerDies: 0, routerStalls: 0, reportsLate: 0, mistakes, chainFrom };
  return { ...plan, settings: { ...plan.settings, chain: true }, workers, paying };
}

/**
 * The plan of a seed in which most settle calls fail before anything is sent, authorizations are short, and outcomes are told late: for rare moves of money.
 */
export function doubtfulPlanOf(seed: number): Plan | null {
  const plan = planOf(seed);
  if (plan.paying === null) return null;
  const orders = plan.paying.orders.map((order) => ({ ...order, validFor: 45_000, cancelAt: null, forged: false }));
  const settleTroubles = ["error before", "busy"] as const;
  return { ...plan, paying: { ...plan.paying, orders, settleTrouble: 0.7, settleTroubles, routersSettle: true, reportsLate: 1, cancelsJobs: 0.3 } };
}

/** The plan of a seed in which one payer has many credits, and sends every payment again and again: for rare moves of balances. */
export function creditPlanOf(seed: number): Plan | null {
  const plan = planOf(seed);
  if (plan.paying === null) return null;
  const again = Array.from({ length: 12 }, (_, n) => ({ after: n * 7_000, variant: "same" }) as const);
  const orders = plan.paying.orders.map((order) => ({
    ...{ ...order, payer: "pam", amount: 1_000, requests: again, cancelAt: null, forged: false },
    ...{ privacyClass: "PUBLIC" as const, jobType: "TASK" as const, validFor: 300_000 },
  }));
  const calm = { verifyTrouble: 0, settleTrouble: 0, routerDies: 0, routerStalls: 0, reportsLate: 0 };
  return { ...plan, paying: { ...plan.paying, ...calm, orders, balances: [["pam", 1_000_000]], cancelsJobs: 0.6 } };
}

/** A plan with newcomers, in which some jobs go to them first. */
function withMarket(seed: number, plan: Plan): Plan {
  const random = new Random(seed + 0xfab);
  const byte = () => random.between(0, 255).toString(16).padStart(2, "0");
  const ids = new Map(plan.jobs.map(({ id }) => [id, `${byte()}-${id}`]));
  const jobs = plan.jobs.map((job) => ({ ...job, id: ids.get(job.id) ?? job.id }));
  const sizes = Object.fromEntries(Object.entries(plan.contexts?.sizes ?? {}).map(([id, size]) => [ids.get(id) ?? id, size]));
  const market = marketPlanOf(
    seed,
    plan.workers.map(({ key }) => key),
  );
  return { ...plan, jobs, market, contexts: plan.contexts && { ...plan.contexts, sizes } };
}

function fullPlanOf(seed: number): Plan {
  const plan = freePlanOf(seed);
  // Of its own stream, so that the histories without money stay as they were when they found something.
  const random = new Random(seed + 0xbee);
  if (random.chance(0.45)) return { ...plan, contexts: contextPlanOf(seed, plan.workers, plan.jobs) };
  const stalled = random.chance(0.05);
  const paying = payingPlanOf(random, plan.faults, stalled);
  if (stalled) return { ...plan, jobs: [], workers: crowdOf(plan.workers), paying };
  // Fewer free jobs, so that workers are left for the paid ones.
  return { ...plan, jobs: plan.jobs.slice(0, random.pick([0, 4, 50])), paying };
}

/** Ten workers that are all there at once and can run anything. */
function crowdOf(workers: readonly WorkerPlan[]): WorkerPlan[] {
  return Array.from({ length: 10 }, (_, index) => {
    const like = workers[index % workers.length] as WorkerPlan;
    return { ...like, key: `w${index}`, arrives: index, tier: "Sentinel", capabilities: ["LLM_INFER", "TASK"] };
  });
}

/** The plan of a seed, without those who pay. */
export function freePlanOf(seed: number): Plan {
  const random = new Random(seed);
  const some = (chance: number, high: number) => (random.chance(chance) ? random.next() * high : 0);
  const faults = random.pick([15_000, 40_000, 90_000, 200_000]);
  const calm = random.chance(0.5);
  const kinds = random.chance(0.3) ? [random.pick(KINDS), random.pick(KINDS)] : KINDS;
  const workers = Array.from({ length: random.between(1, random.pick([2, 5, 10])) }, (_, index): WorkerPlan => ({
    key: `w${index}`,
    personality: random.pick(kinds),
    capabilities: random.pick([["TASK"], ["LLM_INFER", "TASK"], ["LLM_INFER", "TASK"], ["LLM_INFER"]] as const),
    tier: random.pick(TIERS),
    arrives: random.chance(0.6) ? random.between(0, 50) : random.between(0, faults),
  }));
  const bursts = random.chance(0.4) ? [0, random.between(0, faults)] : null;
  const cancels = some(0.3, 0.3);
  const secret = random.pick([0, 0.2, 0.5, 0.9]);
  const users = random.pick([USERS, USERS.slice(0, 1)]);
  const paired = random.pick([0.2, 0.5]);
  const jobs = Array.from({ length: random.between(1, random.pick([4, 16, 50])) }, (_, index): JobPlan => ({
    id: `j${index}`,
    at: bursts === null ? random.between(0, faults) : random.pick(bursts) + random.between(0, 20),
    jobType: random.pick(["LLM_INFER", "TASK"] as const),
    policy: random.pick(["FAST", "CHEAP"] as const),
    privacyClass: random.chance(secret) ? "PRIVATE" : "PUBLIC",
    userId: random.pick(users),
    cancelAfter: random.chance(cancels) ? random.between(0, 20_000) : null,
  }));
  const pairings: Record<string, string[]> = {};
  for (const user of USERS) pairings[user] = workers.filter(() => random.chance(paired)).map(({ key }) => key);
  return {
    settings: {
      stake: random.chance(0.5),
      receiptPolicy: random.chance(0.7) ? "strict" : "record",
      queue: QUEUE_SIZE,
      settlements: 4,
      chain: false,
      clientShares: true,
    },
    workers,
    jobs,
    pairings,
    faults,
    latency: random.pick([2, 30, 400]),
    hibernates: random.chance(0.5),
    crashes: calm ? 0 : some(0.5, 0.15),
    evictions: calm ? some(0.3, 0.2) : some(0.5, 0.4),
    breaks: calm ? 0 : some(0.6, 0.3),
    halfOpen: random.pick([0, 0.3, 0.8]),
    tiers: some(0.3, 0.3),
    pairs: some(0.4, 0.5),
    diskFails: calm ? 0 : some(0.3, 0.1),
    database: some(0.5, 0.6),
    alarmLate: random.pick([0, 5, 5, 400]),
    paying: null,
    contexts: null,
    models: null,
    market: null,
  };
}
