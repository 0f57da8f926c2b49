// Checks the laws of the source tree (docs/architecture.md): which folder of the coordinator may import which, no circle of files, types included, no file
// over 400 lines, an opening line in every longer file, and no comment wider than the code. `node scripts/source-laws.ts` prints what breaks a law and exits
// with 1. The borders between TypeScript projects are checked by `tsc -b`.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const COORDINATOR = "src/coordinator/";
/**
 * Each part of the coordinator, and the other parts that it may import. A part is a folder, a file at the top, or a file that has a law of its own. All of
 * them may import what stands below the coordinator: protocol and receipt.
 */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  "log.ts": [],
  rates: [],
  "tuning.ts": [],
  "deadline.ts": [],
  "recent-jobs.ts": ["deadline.ts", "tuning.ts"],
  "hub/rpc.ts": [],
  "config.ts": ["chain", "hub/rpc.ts", "log.ts"],
  chain: ["deadline.ts"],
  dispatch: [],
  stream: ["tuning.ts"],
  store: ["dispatch", "hub/rpc.ts", "config.ts", "deadline.ts", "log.ts", "tuning.ts"],
  payment: ["chain", "config.ts", "deadline.ts", "log.ts", "tuning.ts"],
  stake: ["chain", "store", "log.ts"],
  hub: ["dispatch", "hub/rpc.ts", "payment", "stake", "store", "stream", "config.ts", "deadline.ts", "log.ts", "rates", "recent-jobs.ts", "tuning.ts"],
  http: ["hub/rpc.ts", "store", "config.ts", "deadline.ts", "log.ts", "rates", "tuning.ts"],
  openapi: ["payment", "stream", "config.ts"],
  routes: ["http", "hub/rpc.ts", "openapi", "payment", "store", "stream", "log.ts", "recent-jobs.ts", "tuning.ts"],
  "app.ts": ["http", "routes"],
  "main.ts": ["app.ts", "http", "hub", "store", "config.ts", "log.ts"],
};

/** Parts that the others import by one file only. */
const ENTRY_FILES: Readonly<Record<string, string>> = { dispatch: `${COORDINATOR}dispatch/index.ts` };

/** Packages that only these parts may import: the web framework, the database, the Durable Object. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  hono: ["http", "routes", "app.ts"],
  "drizzle-orm": ["store", "stake"],
  "cloudflare:workers": ["hub"],
};

const LINES = 400;
/** The formatter wraps code at this width, but no comments. */
const COMMENT_CHARS = 160;
/** A file with more lines than this says in its first line what it is for. */
const LINES_WITHOUT_OPENING = 60;

/** Every break of a law in `sources` (the text of each file by its path), as one text for the author. */
export function brokenLaws(sources: ReadonlyMap<string, string>): string[] {
  const graph = new Map<string, string[]>();
  const problems: string[] = [];
  for (const [file, text] of sources) {
    const imports = importsOf(text);
    const files = imports.filter((name) => name.startsWith(".")).map((name) => join(dirname(file), name));
    graph.set(file, files);
    problems.push(...shapeProblems(file, text), ...files.flatMap((target) => fileProblems(sources, file, target)));
    for (const name of imports) if (!mayImportPackage(file, name)) problems.push(`${file} imports ${name}: the law of the folders forbids it`);
  }
  return [...problems, ...circles(graph).map((circle) => circleProblem(graph, circle))];
}

/** What a file imports or exports again, types too, each once. */
function importsOf(text: string): string[] {
  return [...new Set([...text.matchAll(/\b(?:from|import)\s*\(?\s*"([^"\n]+)"/g)].map(([, name = ""]) => name))];
}

function shapeProblems(file: string, text: string): string[] {
  const lines = text.split("\n").length - 1;
  const problems = lines > LINES ? [`${file} has ${lines} lines: split it into chapters of at most ${LINES}`] : [];
  // The doc comment of an entry of the package is its opening: editors and generators of documentation show it.
  const isOpened = text.startsWith("// ") || /^\/\*\*(?:[^*]|\*(?!\/))*@module/.test(text);
  if (lines > LINES_WITHOUT_OPENING && !isOpened) problems.push(`${file} has ${lines} lines: its first line must say what it is for, as a // comment`);
  for (const [at, line] of text.split("\n").entries()) {
    if (line.length > COMMENT_CHARS && /^\s*(?:\/\/|\/?\*)/.test(line))
      problems.push(`${file}:${at + 1} is a comment of ${line.length} characters: wrap it at ${COMMENT_CHARS}`);
  }
  return problems;
}

function fileProblems(sources: ReadonlyMap<string, string>, file: string, target: string): string[] {
  if (file.startsWith("src/") && target.endsWith(".ts") && !sources.has(target)) return [`${file} imports ${target}, which does not exist`];
  return mayImportFile(file, target) ? [] : [`${file} imports ${target}: the law of the folders forbids it`];
}

/** The part of the coordinator that a file belongs to, or undefined for a file outside. */
function partOf(file: string): string | undefined {
  if (!file.startsWith(COORDINATOR)) return undefined;
  const path = file.slice(COORDINATOR.length);
  return PARTS[path] === undefined ? path.split("/", 1)[0] : path;
}

function mayImportFile(file: string, target: string): boolean {
  const [part, targetPart] = [partOf(file), partOf(target)];
  if (part === undefined || targetPart === undefined || part === targetPart) return true;
  return (PARTS[part]?.includes(targetPart) ?? false) && target === (ENTRY_FILES[targetPart] ?? target);
}

function mayImportPackage(file: string, name: string): boolean {
  const part = partOf(file);
  const [, allowed] = Object.entries(PACKAGES).find(([packageName]) => name === packageName || name.startsWith(`${packageName}/`)) ?? [];
  return part === undefined || allowed === undefined || allowed.includes(part);
}

function circleProblem(graph: ReadonlyMap<string, readonly string[]>, circle: readonly string[]): string {
  const edges = circle.flatMap((file) => (graph.get(file) ?? []).filter((next) => circle.includes(next)).map((next) => `    ${file} → ${next}`));
  return `a circle of ${circle.length} files:\n${edges.join("\n")}`;
}

/** Groups of files that import each other in a circle (Tarjan's strongly connected components of more than one file). */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
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
    if (lowest !== at) return lowest;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1) found.push(group.toSorted());
    return lowest;
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return found;
}

if (import.meta.main) {
  const files = globSync(["src/**/*.ts", "scripts/*.{ts,mjs}"]);
  const problems = brokenLaws(new Map(files.map((file) => [file, readFileSync(file, "utf8")])));
  for (const problem of problems) console.error(problem);
  if (problems.length === 0) console.log(`${files.length} files keep the laws of the source tree`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
