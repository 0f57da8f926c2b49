// Makes the program `compute-router` in dist/cli: src/cli in a few files, because a start from hundreds of modules takes twice as much CPU. The dependencies of
// the package stay outside. If no source is newer than the last build, it builds nothing and does not load esbuild.
import { globSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TARGET = join(ROOT, "dist", "cli");
const MAIN = join(TARGET, "main.js");
const SOURCES = "src/{cli,protocol,receipt,sdk,tasks,worker}/**/*.ts";

const require = createRequire(import.meta.url);

/** Builds the program if a source has changed. Returns the path of its entry. */
export function buildCli(): string {
  const began = new Date();
  if (isFresh()) return MAIN;
  const { buildSync }: typeof import("esbuild") = require("esbuild");
  const { outputFiles } = buildSync({
    // The tasks of a worker run in a thread, which starts from a file of its own beside the others.
    entryPoints: [join(ROOT, "src", "cli", "main.ts"), join(ROOT, "src", "worker", "node", "task-thread.ts")],
    absWorkingDir: ROOT,
    outdir: TARGET,
    entryNames: "[name]",
    bundle: true,
    splitting: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    logLevel: "warning",
  });
  mkdirSync(TARGET, { recursive: true });
  // The entry comes last, because it imports the others.
  const isEntry = ({ path }: { path: string }): boolean => path === MAIN;
  for (const { path, contents } of [...outputFiles.filter((file) => !isEntry(file)), ...outputFiles.filter(isEntry)]) {
    // In one step, because two builds may run at the same time.
    const aside = `${path}.${process.pid}.tmp`;
    // npx makes the entry executable only when it meets this folder for the first time, so it must stay that after every build.
    writeFileSync(aside, contents, { mode: isEntry({ path }) ? 0o755 : 0o644 });
    // A source that is edited during the build is newer than it.
    utimesSync(aside, began, began);
    renameSync(aside, path);
  }
  removeStrays(new Set(outputFiles.map(({ path }) => basename(path))), began);
  return MAIN;
}

function isFresh(): boolean {
  const built = changedAt(MAIN);
  const files = [...globSync(SOURCES, { cwd: ROOT }), "scripts/build-cli.ts", "node_modules/esbuild/package.json"];
  return files.every((file) => changedAt(join(ROOT, file)) < built);
}

/** Milliseconds since 1970; 0 if there is no such file. */
function changedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** Removes the parts of earlier builds, except those of a build that runs at the same time and may remove the same ones. */
function removeStrays(names: ReadonlySet<string>, began: Date): void {
  for (const name of readdirSync(TARGET)) {
    const file = join(TARGET, name);
    if (name.endsWith(".js") && !names.has(name) && changedAt(file) < began.getTime()) rmSync(file, { force: true });
  }
}

if (process.argv[1] !== undefined && basename(process.argv[1]) === basename(import.meta.filename)) console.log(`compute-router: ${buildCli()}`);
