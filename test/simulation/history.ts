// Runs the history of one seed: faults, then calm, then everything must have ended.
import { TIMING } from "../../src/protocol/times.ts";
import * as dispatch from "../../src/coordinator/dispatch/index.ts";
import { START } from "./agenda.ts";
import { type Plan, planOf } from "./plan.ts";
import { broken, Violation } from "./violation.ts";
import { type Core, type Stats, World } from "./world.ts";

/** What one seed gave: the invariant that broke, if one did, and the last events when they were traced. */
type History = { seed: number; stats: Stats; violation: Violation | null; trace: string[] };

const TRACED = 400;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** The longest life of an authorization, the longest pause before an unknown outcome is asked for again, and the answer. */
const SETTLES = 5 * MINUTE + TIMING.settleRetryMax + MINUTE;

/** Runs the history of one seed: the same core and seed give the same history, with or without a trace. */
export function runHistory(
  seed: number,
  { core = dispatch, traced = false, plan = planOf(seed) }: { core?: Core; traced?: boolean; plan?: Plan } = {},
): History {
  const trace: string[] = [];
  let world: World | null = null;
  const note = (line: string) => {
    trace.push(`${String((world?.agenda.now ?? START) - START).padStart(7)} ${line}`);
    if (trace.length > TRACED) trace.shift();
  };
  world = new World(core, plan, seed, traced ? note : null);
  try {
    play(world);
    return { seed, stats: world.stats, violation: null, trace };
  } catch (error) {
    const violation = error instanceof Violation ? error : new Violation("threw", error instanceof Error ? (error.stack ?? error.message) : String(error));
    return { seed, stats: world.stats, violation, trace };
  }
}

function play(world: World): void {
  const { agenda, plan, random, workers } = world;
  for (const [index, worker] of plan.workers.entries()) agenda.at(START + worker.arrives, () => workers[index]?.dial());
  for (const job of plan.jobs) {
    agenda.at(START + job.at, () => {
      world.stats.jobs++;
      world.submit(job);
    });
    if (job.cancelAfter !== null) agenda.at(START + job.at + job.cancelAfter, () => world.hub.cancel(job.id));
  }
  world.seekers.start();
  happen(world, plan.crashes, () => (random.chance(0.5) ? world.hub.crash() : world.hub.crashAfterCommit()));
  happen(world, plan.evictions, () => {
    world.hub.evict();
    world.checks.evicted(agenda.now);
  });
  happen(world, plan.diskFails, () => world.hub.failDisk());
  happen(world, plan.paying?.mistakes ?? 0, () => world.hub.mistake());
  const { chainFrom = 0 } = plan.paying ?? {};
  if (chainFrom > 0) agenda.at(START + chainFrom, () => world.hub.deployWithChain());
  happen(world, plan.breaks, () => {
    const open = workers.filter(({ socket }) => socket !== null);
    const socket = open.length > 0 ? random.pick(open).socket : null;
    if (socket !== null) world.snap(socket, random.chance(plan.halfOpen));
  });
  happen(world, plan.tiers, () => {
    const { key } = random.pick(workers);
    const tier = random.pick(["Open", "Verified", "Sentinel"] as const);
    world.hub.tier(key, tier);
  });
  happen(world, plan.pairs, () => world.pair(random.pick(["ann", "bob", "cyd"]), random.pick(workers).key));
  agenda.runUntil(START + plan.faults);
  world.calm = true;
  world.trace?.("faults stop");
  // The last job's whole life, and the grace time and a few ticks on top.
  agenda.runUntil(agenda.now + TIMING.total + TIMING.grace + 6 * TIMING.retryTick + 3 * plan.alarmLate + (plan.paying === null ? 0 : SETTLES));
  checkRest(world);
  if (world.money.checkRest() === 0 || random.chance(0.5)) return;
  world.stats.longUnknown++;
  // Nobody is there any more but the alarm that asks for what is still unknown: that ends too.
  for (const worker of workers) worker.leave();
  agenda.runUntil(agenda.now + TIMING.unknownSettlement + TIMING.settleRetryMax + MINUTE);
  if (world.money.checkRest() > 0) broken("M9", "a payment is unknown for ever");
  if (hubIsBusy(world)) broken("I9", "the alarm never rests");
}

/** Makes `what` happen at `rate` times a second while faults last, at random moments. */
function happen({ agenda, random, plan }: World, rate: number, what: () => void): void {
  if (rate === 0) return;
  const next = () => {
    const gap = Math.ceil((-Math.log(1 - random.next()) / rate) * SECOND);
    if (agenda.now - START + gap >= plan.faults) return;
    agenda.after(gap, () => {
      what();
      next();
    });
  };
  next();
}

/** Liveness: with the faults gone, everything that was accepted has ended, everywhere. */
function checkRest(world: World): void {
  const { hub, accepted, database } = world;
  world.stats.accepted = accepted.size;
  for (const id of accepted) {
    if (!hub.storedEnded.has(id)) broken("I6", `${id} was accepted and has not ended`);
    if (!database.rows.get(id)?.terminal) broken("I6", `${id} has ended and the database does not know`);
  }
  if (hub.storedRows.size > 0) broken("I6", `${[...hub.storedRows.keys()].join()} live on`);
  if (hub.storedOutbox.size > 0) broken("I6", "the outbox is not empty");
  const state = hub.memory;
  if (state === null) return;
  for (const worker of state.workers.values()) if (worker.jobId !== null) broken("I9", `${worker.key} is busy at rest`);
  if (state.jobs.size > 0 || state.queue.jobs !== 0 || state.tickDue !== null) broken("I9", "dispatch is not at rest");
}

function hubIsBusy({ hub }: World): boolean {
  return hub.storedAlarm !== null;
}
