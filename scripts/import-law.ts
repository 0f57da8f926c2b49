/**
 * Checks the imports of `src` against the law of the folders (docs/architecture.md): which folder may import which, and no circle of files, including type
 * imports. Prints each wrong import and exits with 1. The borders between TypeScript projects are checked by `tsc -b`.
 */
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Inside the coordinator: each folder or top file, and the folders and files that it may import. */
const COORDINATOR: Readonly<Record<string, readonly string[]>> = {
  "config.ts": ["chain", "hub/rpc.ts", "log.ts"],
  "deadline.ts": [],
  "log.ts": [],
  "rates.ts": [],
  "tuning.ts": [],
  chain: [],
  dispatch: [],
  store: ["dispatch", "config.ts", "log.ts"],
  payment: ["chain", "config.ts", "log.ts"],
  stake: ["chain", "store", "config.ts", "log.ts"],
  stream: ["dispatch", "store"],
  hub: ["dispatch", "store", "payment", "stake", "stream", "config.ts", "log.ts", "rates.ts"],
  http: ["hub/rpc.ts", "store", "config.ts", "log.ts", "rates.ts"],
  openapi: ["config.ts", "payment", "stream"],
  routes: ["http", "payment", "store", "stream", "openapi", "hub/rpc.ts", "config.ts", "log.ts"],
  "app.ts": ["http", "routes"],
  "main.ts": ["app.ts", "http", "hub", "store", "config.ts", "log.ts"],
};
/** Every folder may import these. */
const SHARED = ["tuning.ts", "deadline.ts"];

/** The relative imports of a file, including type imports. */
function importsOf(file: string): string[] {
  const specifiers = [...readFileSync(file, "utf8").matchAll(/^(?:import|export)\b[^"';]*?\bfrom "(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/gms)];
  return specifiers.map(([, from, dynamic]) => join(dirname(file), from ?? dynamic ?? ""));
}

/** The folder of a file of the coordinator, or the file itself if it is at the top. */
function roomOf(file: string): string {
  return file.split("/")[2] ?? "";
}

function breaksLaw(from: string, to: string): boolean {
  if (!from.startsWith("src/coordinator/") || !to.startsWith("src/coordinator/")) return false;
  const [room, target] = [roomOf(from), roomOf(to)];
  const allowed = COORDINATOR[room];
  if (allowed === undefined) return true;
  return room !== target && ![...allowed, ...SHARED].some((entry) => entry === target || to === `src/coordinator/${entry}`);
}

/** Groups of files that import each other in a circle (Tarjan's strongly connected components of more than one file). */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (file: string): number => {
    const at = index.size;
    index.set(file, at);
    stack.push(file);
    let lowest = at;
    for (const next of graph.get(file) ?? []) {
      if (!index.has(next)) lowest = Math.min(lowest, visit(next));
      else if (stack.includes(next)) lowest = Math.min(lowest, index.get(next) ?? at);
    }
    low.set(file, lowest);
    if (lowest !== at) return lowest;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1) found.push(group.toSorted());
    return lowest;
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return found;
}

const graph = new Map(globSync("src/**/*.ts").map((file) => [file, importsOf(file)]));
const problems: string[] = [];
for (const [file, imports] of graph) {
  for (const target of new Set(imports)) {
    if (breaksLaw(file, target)) problems.push(`${file} imports ${target}: the law of the folders forbids it`);
    if (!graph.has(target) && target.endsWith(".ts")) problems.push(`${file} imports ${target}, which does not exist`);
  }
}
for (const circle of circles(graph)) {
  const edges = circle.flatMap((file) => (graph.get(file) ?? []).filter((next) => circle.includes(next)).map((next) => `    ${file} → ${next}`));
  problems.push(`a circle of ${circle.length} files:\n${edges.join("\n")}`);
}
for (const problem of problems) console.error(problem);
if (problems.length === 0) console.log(`${graph.size} files keep the law of the folders, without a circle`);
process.exitCode = problems.length === 0 ? 0 : 1;
