// Makes copies of the dispatch core with one planted bug, and searches seeds that find it.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { basename, dirname, join } from "node:path";
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

/**
 * The dispatch core with one bug planted, so that the code that ships needs no seam for it. Only the edited modules and those that import them, directly or
 * through others, are copied for it; the rest of the core and the protocol are one copy for all bugs.
 */
export async function mutantOf(bug: PlantedBug): Promise<Core> {
  const core = original();
  const edited = new Map<string, string>();
  for (const { file, from, to } of bug.edits) {
    const source = edited.get(file) ?? core.get(file)?.source;
    if (source === undefined) throw new Error(`"${bug.name}" names a file that is not there`);
    const places = source.split(from).length - 1;
    if (places !== 1) throw new Error(`"${bug.name}" must match once in ${file}, it matches ${places} times: ${from}`);
    edited.set(
      file,
      source.replace(from, () => to),
    );
  }
  const own = withImporters(edited.keys(), core);
  const folder = join(HOME, dirname(CORE), bug.name.replaceAll(/\W+/g, "-"));
  for (const file of own) {
    const text = javaScript(edited.get(file) ?? core.get(file)?.source ?? "");
    write(
      folder,
      file,
      text.replaceAll(NEIGHBOR, (whole, module: string) => (own.has(`${module}.ts`) ? whole : `from "../${basename(CORE)}/${module}.mjs"`)),
    );
  }
  return (await import(/* @vite-ignore */ pathToFileURL(join(folder, "index.mjs")).href)) as Core;
}

/** Removes the copies that this process has made. */
export function removeMutants(): void {
  rmSync(HOME, { recursive: true, force: true });
  modules = undefined;
}

/** An import of another module of the core, as a copy has it. */
const NEIGHBOR = /from\s+"\.\/([^"/]+)\.mjs"/g;

/** A module of the core: its source, and which others it imports when it runs. */
type Module = { source: string; imports: readonly string[] };

let modules: ReadonlyMap<string, Module> | undefined;

/** The core by file. The first call copies all of it, and the protocol. */
function original(): ReadonlyMap<string, Module> {
  if (modules !== undefined) return modules;
  for (const [file, source] of sourcesIn(PROTOCOL)) write(join(HOME, PROTOCOL), file, javaScript(source));
  const found = new Map<string, Module>();
  for (const [file, source] of sourcesIn(CORE)) {
    const text = javaScript(source);
    write(join(HOME, CORE), file, text);
    found.set(file, { source, imports: [...text.matchAll(NEIGHBOR)].map(([, module]) => `${module}.ts`) });
  }
  return (modules = found);
}

/** These files, those that import them, those that import these, and so on; and the one that is the way in. */
function withImporters(files: Iterable<string>, core: ReadonlyMap<string, Module>): ReadonlySet<string> {
  const all = new Set(["index.ts", ...files]);
  // A set that grows is walked to its new end.
  for (const one of all) for (const [file, { imports }] of core) if (imports.includes(one)) all.add(file);
  return all;
}

function sourcesIn(folder: string): [file: string, source: string][] {
  const files = readdirSync(join(ROOT, folder)).filter((file) => file.endsWith(".ts"));
  return files.map((file) => [file, readFileSync(join(ROOT, folder, file), "utf8")]);
}

/** Node strips no types below node_modules, so a copy is JavaScript. */
function write(folder: string, file: string, text: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, file.replace(/\.ts$/, ".mjs")), text);
}

function javaScript(source: string): string {
  return stripTypeScriptTypes(source).replaceAll(/(from\s+"\.[^"]*)\.ts"/g, '$1.mjs"');
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
const MOST_SEEDS = 3_000;

/** The file with the seed that found each bug last. `npm run simulate -- --planted` writes it. */
export const NOTED_SEEDS = new URL("found-seeds.json", import.meta.url);

const noted: Record<string, number> = JSON.parse(readFileSync(NOTED_SEEDS, "utf8"));

/** The seed that found a planted bug last; 0 if none was noted. */
export function notedSeed({ rule, name }: PlantedBug): number {
  return noted[`${rule} ${name}`] ?? 0;
}

/** The seeds to search for a planted bug. The noted one is first, because most bugs are rare and the search is long. */
export function* seedsFor(bug: PlantedBug): Generator<number> {
  yield notedSeed(bug);
  for (let seed = 1; seed <= MOST_SEEDS; seed++) yield seed;
}
