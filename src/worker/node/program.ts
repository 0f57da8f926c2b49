// This program: how hints name it, so that the reader can run the hint in the current folder as it is printed, its version, and the Node that it runs on.
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { delimiter, dirname, join, relative, sep } from "node:path";
import * as z from "zod";
import { packageRoot } from "../runtimes/embedded-install.ts";

/** The facts that decide the name. */
type CommandPlace = { cwd?: string; path?: string; platform?: NodeJS.Platform; root?: string; main?: string };

const NAME = "compute-router";

let found: string | undefined;

/** A command line of this program for a hint: `words` after the program's name, as `compute-router worker init`. */
export function ownCommand(words: string): string {
  found ??= programName();
  return `${found} ${words}`;
}

/**
 * How a person can start this program here: `compute-router` if it is installed globally, `npx compute-router` in a clone or in a project that depends on it,
 * and otherwise `node` and its file. It is never an `npx` that would download a package of that name.
 */
export function programName({
  cwd = process.cwd(),
  path = process.env["PATH"] ?? "",
  platform = process.platform,
  root = packageRoot(),
  main = process.argv[1] ?? join(root, "dist", "cli", "main.js"),
}: CommandPlace = {}): string {
  const package_ = real(root);
  const isOurs = (file: string): boolean => {
    // On Windows npm writes a script instead of a link.
    if (platform === "win32") return existsSync(`${file}.cmd`);
    return existsSync(file) && real(file).startsWith(`${package_}${sep}`);
  };
  // npm and npx add these folders to the PATH of the programs that they start. The reader's shell does not have them.
  const folders = path.split(delimiter).filter((folder) => folder !== "" && !folder.endsWith(join("node_modules", ".bin")));
  if (folders.some((folder) => isOurs(join(folder, NAME)))) return NAME;
  const project = projectOf(cwd);
  if (project !== null) {
    const isClone = real(project) === package_ && existsSync(join(package_, "dist", "cli", "main.js"));
    if (isClone || isOurs(join(project, "node_modules", ".bin", NAME))) return `npx ${NAME}`;
  }
  const near = relative(cwd, main);
  const file = near.startsWith("..") || near === "" ? main : near;
  return `node ${shellWord(file, platform)}`;
}

/** A word for a shell, quoted if necessary. On Windows in double quotes, because to cmd.exe a single quote is a letter. */
export function shellWord(word: string, platform: NodeJS.Platform = process.platform): string {
  const bare = platform === "win32" ? /^[\w./\\:@%+=,-]+$/ : /^[\w./:@%+=,-]+$/;
  if (bare.test(word)) return word;
  return platform === "win32" ? `"${word.replaceAll('"', '\\"')}"` : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The folder whose programs npx starts: the nearest parent with a package.json or node_modules. */
function projectOf(cwd: string): string | null {
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json")) || existsSync(join(folder, "node_modules"))) return folder;
    if (folder === dirname(folder)) return null;
  }
}

function real(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

/** The version of this package. */
export function packageVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"))).version;
}

/** True if this Node has a WebSocket (Node 22 and later). Only a worker needs it. */
export function hasWebSocket(): boolean {
  return typeof globalThis.WebSocket === "function";
}

/** An addition to a hint at `worker start`, for a Node that cannot run it; empty for all others. */
export function needsNewerNode(): string {
  return hasWebSocket() ? "" : `, with Node 22 or newer (this is ${process.versions.node})`;
}

/** Advice for a Node without a WebSocket. */
export const NO_WEBSOCKET = `a worker needs Node 22 or newer, for its WebSocket; this is Node ${process.versions.node}. Get one at https://nodejs.org`;
