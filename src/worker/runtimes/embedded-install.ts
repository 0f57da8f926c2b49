// Installs the embedded runtime (llama.cpp by node-llama-cpp) into this package, so that a worker can run LLM_INFER jobs without another server.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { copyFile, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { parseJson } from "../../protocol/json.ts";

/** The command with which a person installs the embedded runtime. */
export const INSTALL_COMMAND = "npm ci --ignore-scripts --no-audit --no-fund --prefix runtimes/llama";

/** The folder of the embedded runtime's package. */
export function embeddedFolder(): string {
  return join(packageRoot(), "runtimes", "llama");
}

/** True if the embedded runtime is completely installed, in the version that this package requires. */
export function isEmbeddedInstalled(folder: string = embeddedFolder()): boolean {
  const modules = join(folder, "node_modules");
  // npm writes its hidden lockfile last. Without that file the install did not finish.
  if (!existsSync(join(modules, ".package-lock.json"))) return false;
  const wanted = readPackage(join(folder, "package.json"))?.dependencies?.["node-llama-cpp"];
  return wanted !== undefined && readPackage(join(modules, "node-llama-cpp", "package.json"))?.version === wanted;
}

/**
 * Installs the embedded runtime (about 100 MB); `onProgress` gets lines for a person. It is installed in a separate folder and then moved into place in one
 * step. Two processes can therefore install at the same time, and a process that dies leaves no incomplete install.
 */
export async function installEmbedded(onProgress: (line: string) => void, options: { signal?: AbortSignal; folder?: string } = {}): Promise<Installed> {
  const folder = options.folder ?? embeddedFolder();
  if (isEmbeddedInstalled(folder)) return { ok: true };
  const stage = join(folder, `${STAGE}${randomUUID()}`);
  try {
    await removeAbandoned(folder);
    await mkdir(stage);
    for (const file of ["package.json", "package-lock.json"]) await copyFile(join(folder, file), join(stage, file));
    onProgress("installing llama.cpp (about 100 MB)");
    const failure = await npmCi(stage, INSTALL_COMMAND, onProgress, options.signal);
    if (failure !== undefined) return failure;
    await moveIntoPlace(folder, stage);
    onProgress("llama.cpp is installed");
    return { ok: true };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (!["EACCES", "EPERM", "EROFS"].includes(code)) throw error;
    return { ok: false, reason: "not_writable", message: `cannot write to ${folder} (${code}); install it as the owner of that folder: ${INSTALL_COMMAND}` };
  } finally {
    await rm(stage, { recursive: true, force: true }).catch(() => {});
  }
}

/** The separate folder of an install is this and an id. */
const STAGE = ".install-";
/** An install that began earlier was killed: a download of 100 MB does not take a day. */
const ABANDONED_MS = 24 * 3_600_000;

/** Deletes the folders of installs that were killed. One that cannot be deleted, or that another process deletes, is no reason not to install. */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(STAGE)) continue;
    const made = await stat(join(folder, name)).catch(() => null);
    if (made !== null && Date.now() - made.mtimeMs > ABANDONED_MS) await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
  }
}

async function moveIntoPlace(folder: string, stage: string): Promise<void> {
  const target = join(folder, "node_modules");
  const fresh = join(stage, "node_modules");
  try {
    await rename(fresh, target);
  } catch (error) {
    if (isEmbeddedInstalled(folder)) return;
    if (!existsSync(target)) throw error;
    // The existing folder is an old version or an incomplete install. It is deleted together with the stage folder.
    await rename(target, join(stage, "replaced"));
    await rename(fresh, target).catch((again: unknown) => {
      if (!isEmbeddedInstalled(folder)) throw again;
    });
  }
}

const Package = z.object({ version: z.string().optional(), dependencies: z.record(z.string(), z.string()).optional() });

function readPackage(file: string): z.infer<typeof Package> | undefined {
  return existsSync(file) ? Package.safeParse(parseJson(readFileSync(file, "utf8"))).data : undefined;
}

const NPM_ARGUMENTS = ["ci", "--prefix", ".", "--ignore-scripts", "--no-audit", "--no-fund", "--include=optional", "--prefer-offline"];
/** By default npm waits more than a minute before it reports that there is no network. */
const NPM_RETRIES = ["--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"];
const NO_NETWORK = /\b(ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)\b/;
const PROGRESS_STEP = 50;

/** The result of an install. `message` tells a person what to do. */
type Installed = { ok: true } | { ok: false; reason: "offline" | "npm_missing" | "not_writable" | "aborted" | "failed"; message: string };
type Failure = Extract<Installed, { ok: false }>;

/**
 * How to start npm or npx without a shell, which would read the arguments in its own way. On Windows both are a .cmd, which only a shell can start. There
 * Node's installer puts their scripts beside Node.
 */
export function npmCommand(name: "npm" | "npx", node: string = process.execPath): [file: string, ...args: string[]] {
  const script = join(dirname(node), "node_modules", "npm", "bin", `${name}-cli.js`);
  return existsSync(script) ? [node, script] : [name];
}

/** Runs `npm ci` in a folder; undefined if it worked. `command` is the command that messages name, and `onProgress` gets lines for a person. */
export async function npmCi(cwd: string, command: string, onProgress: (line: string) => void, signal?: AbortSignal): Promise<Failure | undefined> {
  const [file, ...first] = npmCommand("npm");
  const npm = spawn(file, [...first, ...NPM_ARGUMENTS, ...NPM_RETRIES, "--loglevel=http"], {
    cwd,
    stdio: ["ignore", "ignore", "pipe"],
    // After SIGTERM npm cleans up, which can take long; the stage folder is deleted anyway.
    killSignal: "SIGKILL",
    ...(signal && { signal }),
  });
  const ended = new Promise<"missing" | number>((resolve) => {
    npm.once("error", () => npm.pid === undefined && resolve("missing")).once("exit", (code) => resolve(code ?? 1));
  });
  const complaints: string[] = [];
  let fetched = 0;
  for await (const line of createInterface({ input: npm.stderr, ...(signal && { signal }) })) {
    if (/^npm (error|ERR!)/.test(line)) complaints.push(line.replace(/^npm (error|ERR!) ?/, ""));
    if (!line.startsWith("npm http ")) continue;
    fetched += 1;
    if (fetched % PROGRESS_STEP === 0) onProgress(`${fetched} files downloaded`);
  }
  const result = await ended;
  if (result === 0) return undefined;
  if (signal?.aborted) return { ok: false, reason: "aborted", message: "the install was aborted" };
  if (result === "missing") return { ok: false, reason: "npm_missing", message: "npm is not on the PATH; it comes with Node.js" };
  const said = complaints.join("\n");
  if (NO_NETWORK.test(said)) return { ok: false, reason: "offline", message: `the npm registry cannot be reached; go online and run: ${command}` };
  return { ok: false, reason: "failed", message: `npm ci failed: ${complaints.find((line) => line.trim() !== "") ?? `exit code ${result}`}` };
}

/** The folder of this package. It is searched upwards from this file, which runs from `src` and from `dist`. */
export function packageRoot(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (nameIn(join(folder, "package.json")) === "compute-router") return folder;
    if (folder === dirname(folder)) throw new Error("no package.json of compute-router above this file");
  }
}

function nameIn(file: string): unknown {
  const value = existsSync(file) ? parseJson(readFileSync(file, "utf8")) : undefined;
  return typeof value === "object" && value !== null && "name" in value ? value.name : undefined;
}
