import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const NPM_ARGUMENTS = ["ci", "--prefix", ".", "--ignore-scripts", "--no-audit", "--no-fund", "--include=optional", "--prefer-offline"];
/** npm's own default waits more than a minute before it says that there is no network. */
const NPM_RETRIES = ["--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"];
const NO_NETWORK = /\b(ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)\b/;
const PROGRESS_STEP = 50;

/** The result of an install. `message` says what to do. */
export type Installed = { ok: true } | { ok: false; reason: "offline" | "npm_missing" | "not_writable" | "aborted" | "failed"; message: string };
type Failure = Extract<Installed, { ok: false }>;

/** Runs `npm ci` in a folder; undefined when it worked. `command` is what a person would type, `onProgress` gets lines for one. */
export async function npmCi(cwd: string, command: string, onProgress: (line: string) => void, signal?: AbortSignal): Promise<Failure | undefined> {
  // A shell finds npm.cmd on Windows; every argument is constant.
  const npm = spawn("npm", [...NPM_ARGUMENTS, ...NPM_RETRIES, "--loglevel=http"], {
    cwd,
    stdio: ["ignore", "ignore", "pipe"],
    shell: process.platform === "win32",
    // npm answers SIGTERM by tidying up, which can last; the stage folder is thrown away anyway.
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
    if (fetched % PROGRESS_STEP === 0) onProgress(`${fetched} downloads done`);
  }
  const result = await ended;
  if (result === 0) return undefined;
  if (signal?.aborted) return { ok: false, reason: "aborted", message: "the install was aborted" };
  if (result === "missing") return { ok: false, reason: "npm_missing", message: "npm is not on the PATH; it comes with Node.js" };
  const said = complaints.join("\n");
  if (NO_NETWORK.test(said)) return { ok: false, reason: "offline", message: `the npm registry cannot be reached; go online and run: ${command}` };
  return { ok: false, reason: "failed", message: `npm ci failed: ${complaints.find((line) => line.trim() !== "") ?? `exit code ${result}`}` };
}
