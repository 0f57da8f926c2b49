// One lab, and one coordinator on each of its chains, for all files of this process whose coordinators would have the same settings: a start costs seconds of
// CPU.
import { rmSync } from "node:fs";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, type Side } from "./bench.ts";
import { isAtRest } from "./books.ts";

/** How many new payers a file may take. */
const PAYERS = 120;

let lab: Promise<FullLab> | null = null;
const benches = new Map<Side, Bench>();

/** The lab of this process. It ends with the process: whoever stops it takes it from the next file. */
export function sharedLab(): Promise<FullLab> {
  if (lab === null) {
    lab = startLab({ evm: { payers: 3 * PAYERS }, svm: { payers: 3 * PAYERS } });
    // vitest ends its processes with SIGTERM, which by itself would run nothing at the exit: anvil would stay.
    process.once("SIGTERM", () => process.exit());
    process.once("exit", () => benches.forEach(({ state }) => rmSync(state, { recursive: true, force: true, maxRetries: 3 })));
  }
  return lab;
}

/**
 * The coordinator of this process on one side of the lab, without workers. To be given back with {@link giveBack} after the tests of a file; until then nobody
 * else has it.
 */
export async function sharedBench(side: Side): Promise<Bench> {
  const world = await sharedLab();
  world.facilitator.faults.clear();
  world.facilitator.log.clear();
  const kept = benches.get(side);
  if (kept !== undefined) return kept;
  const bench = new Bench(world, side);
  benches.set(side, bench);
  return await bench.start();
}

/** Leaves it to the next file, unless something of this one would go on there (a job that waits, money in doubt), or too few of its payers are new. */
export async function giveBack(bench: Bench): Promise<void> {
  await bench.leave();
  bench.lab.facilitator.faults.clear();
  if (bench.payersLeft >= PAYERS && (await isAtRest(bench))) return;
  benches.delete(bench.side);
  await bench.stop();
  // What it has asked for still moves money, and the next coordinator has no row of it.
  await bench.lab.facilitator.atRest();
}
