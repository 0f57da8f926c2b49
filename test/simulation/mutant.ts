// Makes copies of the dispatch core with one planted bug, and searches seeds that find it.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { QUEUE_SIZE } from "../support/queue-size.ts";
import { runHistory } from "./history.ts";
import { freePlanOf, type Plan, planOf } from "./plan.ts";
import { PLANTED_MARKET_BUGS, PLANTED_QUEUE_BUGS } from "./planted-market-bugs.ts";
import { PLANTED_MODEL_BUGS } from "./planted-model-bugs.ts";
import { PLANTED_BUGS, PLANTED_CONTEXT_BUGS, PLANTED_MONEY_BUGS, type PlantedBug } from "./planted-bugs.ts";
import type { Core } from "./world.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CORE = "src/coordinator/dispatch";
const PROTOCOL = "src/protocol";
const HOME = join(ROOT, "node_modules/.cache/planted-bugs", String(process.pid));

/** A copy of the dispatch core with one bug planted, so that the code that ships needs no seam for it. All copies share one protocol. */
export async function mutantOf(bug: PlantedBug): Promise<Core> {
  if (!existsSync(join(HOME, PROTOCOL))) copy(PROTOCOL, join(HOME, PROTOCOL), []);
  const core = join(HOME, dirname(CORE), bug.name.replaceAll(/\W+/g, "-"));
  copy(CORE, core, bug.edits, bug.name);
  return (await import(/* @vite-ignore */ pathToFileURL(join(core, "index.mjs")).href)) as Core;
}

/** Removes the copies that this process has made. */
export function removeMutants(): void {
  rmSync(HOME, { recursive: true, force: true });
}

/** Node strips no types below node_modules, so a copy is JavaScript. */
function copy(folder: string, target: string, edits: PlantedBug["edits"], bug = ""): void {
  const left = new Set(edits);
  mkdirSync(target, { recursive: true });
  for (const name of readdirSync(join(ROOT, folder)).filter((file) => file.endsWith(".ts"))) {
    let source = readFileSync(join(ROOT, folder, name), "utf8");
    for (const edit of edits) {
      if (edit.file !== name) continue;
      const places = source.split(edit.from).length - 1;
      if (places !== 1) throw new Error(`"${bug}" must match once in ${name}, it matches ${places} times: ${edit.from}`);
      source = source.replace(edit.from, () => edit.to);
      left.delete(edit);
    }
    writeFileSync(join(target, name.replace(/\.ts$/, ".mjs")), javaScript(source));
  }
  if (left.size > 0) throw new Error(`"${bug}" names a file that is not there`);
}

const known = new Map<string, string>();

function javaScript(source: string): string {
  let text = known.get(source);
  if (text === undefined) known.set(source, (text = stripTypeScriptTypes(source).replaceAll(/(from\s+"\.[^"]*)\.ts"/g, '$1.mjs"')));
  return text;
}

/** The planted bugs, each with the histories that can show it: those of seeds without a plan cannot. */
export const SEARCHES: readonly { bug: PlantedBug; planOf: (seed: number) => Plan | null }[] = [
  ...PLANTED_BUGS.map((bug) => ({ bug, planOf: freePlanOf })),
  ...PLANTED_MARKET_BUGS.map((bug) => ({ bug, planOf: planWith("market") })),
  ...PLANTED_MODEL_BUGS.map((bug) => ({ bug, planOf: planWith("models") })),
  ...PLANTED_QUEUE_BUGS.map((bug) => ({ bug, planOf: planWithSmallQueue })),
  ...PLANTED_CONTEXT_BUGS.map((bug) => ({ bug, planOf: planWith("contexts") })),
  ...PLANTED_MONEY_BUGS.map((bug) => ({ bug, planOf: planWith("paying") })),
];

function planWithSmallQueue(seed: number): Plan | null {
  const plan = planOf(seed);
  return plan.settings.queue === QUEUE_SIZE ? null : { ...plan, models: null };
}

function planWith(part: "contexts" | "market" | "models" | "paying"): (seed: number) => Plan | null {
  return (seed) => {
    const plan = planOf(seed);
    return plan[part] === null ? null : { ...plan, models: part === "models" ? plan.models : null };
  };
}

/** The first of these seeds whose history on this core breaks an invariant. */
export function firstFound(core: Core, plans: (seed: number) => Plan | null, seeds: Iterable<number>): number | null {
  for (const seed of seeds) {
    const plan = plans(seed);
    if (plan !== null && runHistory(seed, { core, plan }).violation !== null) return seed;
  }
  return null;
}

/** Enough for the rarest planted bug, and one that is common is found within the first few. */
export const MOST_SEEDS = 3_000;

/** The file with the seed that found each bug last. `npm run simulate -- --planted` writes it. */
export const NOTED_SEEDS = new URL("found-seeds.json", import.meta.url);

const noted: Record<string, number> = JSON.parse(readFileSync(NOTED_SEEDS, "utf8"));

/** The seeds to search for a planted bug. The noted one is first, because most bugs are rare and the search is long. */
export function* seedsFor({ rule, name }: PlantedBug): Generator<number> {
  const found = noted[`${rule} ${name}`];
  if (found !== undefined) yield found;
  for (let seed = 1; seed <= MOST_SEEDS; seed++) yield seed;
}
