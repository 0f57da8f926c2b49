// Searches the seeds for a history that breaks an invariant: `node scripts/simulate.ts [--seeds N] [--from S] [--seed X --trace]`. `--planted` searches
// a seed for each planted bug whose noted one no longer finds it, and notes it for test/simulation/planted-bugs.test.ts. `--hubs 1,4,16` tries so many hubs
// (docs/scaling.md).
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { tryHubs } from "../test/simulation/cluster/trial.ts";
import { runHistory } from "../test/simulation/history.ts";
import { firstFound, mutantOf, NOTED_SEEDS, removeMutants, SEARCHES, seedsFor } from "../test/simulation/mutant.ts";
import { Stats } from "../test/simulation/world.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "2000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    trace: { type: "boolean", default: false },
    "keep-going": { type: "boolean", default: false },
    planted: { type: "boolean", default: false },
    hubs: { type: "string" },
  },
});
if (values.hubs !== undefined) process.exit(tryHubs(values.hubs.split(",").map(Number), Number(values.from)) ? 0 : 1);
if (values.planted) await notePlanted();
const from = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const total = new Stats();
const failures = new Map<string, number[]>();
const started = performance.now();

for (let seed = from; seed < from + count; seed++) {
  const { violation, stats } = runHistory(seed);
  total.add(stats);
  if (violation === null) continue;
  const seeds = failures.get(violation.invariant) ?? [];
  failures.set(violation.invariant, [...seeds, seed]);
  if (values["keep-going"]) {
    if (seeds.length === 0) console.log(`seed ${seed} breaks ${violation.message}`);
    continue;
  }
  console.log(runHistory(seed, { traced: true }).trace.slice(-60).join("\n"));
  console.log(`\nseed ${seed} breaks ${violation.message}\nagain with: node scripts/simulate.ts --seed ${seed} --trace`);
  process.exitCode = 1;
  break;
}
if (values.trace && process.exitCode !== 1) console.log(runHistory(from, { traced: true }).trace.join("\n"));

const seconds = (performance.now() - started) / 1_000;
console.log(`${Math.round(count / seconds)} seeds/s, ${Math.round(total.events / seconds / 1_000)} k events/s, ${seconds.toFixed(1)} s`);
console.log(JSON.stringify({ seeds: count, ...total, causes: Object.fromEntries(total.causes), moves: Object.fromEntries(total.moves) }));
for (const [invariant, seeds] of failures) console.log(`${invariant}: ${seeds.length} seeds, first ${seeds.slice(0, 8).join(", ")}`);
if (failures.size > 0) process.exitCode = 1;

async function notePlanted(): Promise<never> {
  const found: Record<string, number> = {};
  let missed = 0;
  for (const { bug, planOf } of SEARCHES) {
    const title = `${bug.rule} ${bug.name}`;
    const seed = firstFound(await mutantOf(bug), planOf, seedsFor(bug));
    if (seed !== null) found[title] = seed;
    else missed++;
    console.log(`${seed ?? "not found"}  ${title}`);
  }
  writeFileSync(NOTED_SEEDS, `${JSON.stringify(found, null, 2)}\n`);
  removeMutants();
  process.exit(missed > 0 ? 1 : 0);
}
