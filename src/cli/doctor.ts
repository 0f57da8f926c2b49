// The checks of `worker doctor`: Node, configuration, key, coordinators, a trial job, the LLM. It changes nothing.
import { randomUUID } from "node:crypto";
import { accessSync, constants, lstatSync } from "node:fs";
import { dirname } from "node:path";
import * as z from "zod";
import { LIMITS } from "../protocol/limits.ts";
import { parseJson } from "../protocol/json.ts";
import { Health } from "../protocol/rest.ts";
import type { Result } from "../protocol/result.ts";
import { untrusted } from "../protocol/text.ts";
import { TIMING } from "../protocol/times.ts";
import { type KeyPair, keyPair, shortKey } from "../receipt/ed25519.ts";
import { verifyReceipt } from "../receipt/receipt.ts";
import { hasWebSocket, needsNewerNode, NO_WEBSOCKET, ownCommand } from "../worker/node/program.ts";
import { ReasonedSocket } from "../worker/node/connect-reason.ts";
import { coordinatorName, type CoordinatorPlace, taskThread } from "../worker/node/desktop-worker.ts";
import { readKeyFile } from "../worker/node/key-file.ts";
import { llmFinder, type LlmWish, needsInstall } from "../worker/node/runtime-watch.ts";
import { folderOption } from "../worker/node/worker-config.ts";
import { NO_REPORT, runningWorkers, type StatusReport, unreportedWorkers } from "../worker/node/worker-status.ts";
import { reasonOf } from "../worker/runtimes/reason.ts";
import { namingProblem, type Runtime } from "../worker/runtimes/runtime.ts";
import { createExecutor, seal, seedSigner, SESSION_TIMING, ThreadedTasks, verdictOf } from "../worker/session/index.ts";
import { type CliError, EXIT } from "./command.ts";
import { coordinatorUrls } from "./seeker.ts";
import type { WorkerPlan } from "./worker-plan.ts";

/** How long the first answer may take, because the model may have to be loaded. */
const LLM_TIMEOUT_MS = 120_000;
/** How long a coordinator may take to answer. */
const TIMEOUT_MS = 5_000;
const MARKS = { ok: { mark: "✓", color: 32 }, warn: { mark: "!", color: 33 }, fail: { mark: "✗", color: 31 } } as const;

/** The result of one check. With `warn` the worker can still work. */
export type Check =
  | { name: string; state: "ok"; message: string }
  | { name: string; state: "warn"; message: string; fix?: string }
  | { name: string; state: "fail"; message: string; fix: string; exit: CliError["exit"] };

const Challenge = z.object({ type: z.literal("challenge"), network: z.string(), host: z.string() });

/** The health of a coordinator, and the difference between its clock and this machine's. */
type SeenHealth = { network: string; workersOnline: number; ms: number; skewMs: number };

/** Checks everything that a worker needs and yields each result as soon as it is known. It changes nothing. `llmTimeoutMs` limits the wait for the LLM. */
export async function* examine(plan: WorkerPlan, llmTimeoutMs: number = LLM_TIMEOUT_MS): AsyncGenerator<Check, void, undefined> {
  if (hasWebSocket()) yield { name: "node", state: "ok", message: process.versions.node };
  else yield { name: "node", state: "fail", message: `${process.versions.node} has no WebSocket`, fix: NO_WEBSOCKET, exit: EXIT.error };
  yield configuration(plan);
  const result = readKeyFile(plan.keyFile);
  if (result.ok) yield { name: "key", state: "ok", message: `${shortKey(result.key.publicKey)} in ${plan.keyFile}` };
  else if (result.reason === "missing")
    yield {
      name: "key",
      state: "warn",
      message: `none at ${plan.keyFile} yet`,
      fix: `the first start creates one, or create it now: ${ownCommand(`worker init${folderOption(plan)}`)}`,
    };
  else yield { name: "key", state: "fail", message: result.message, fix: "or use another key file: --key FILE", exit: EXIT.key };
  for (const coordinator of plan.coordinators) yield* await checkCoordinator(coordinator);
  // Without a key file, any key shows whether this machine can sign.
  const key = result.ok ? result.key : keyPair(crypto.getRandomValues(new Uint8Array(32)));
  yield await task(key);
  const mine = runningWorkers(plan.folder).find(({ provider_pubkey }) => result.ok && provider_pubkey === result.key.publicKey);
  yield* llm(plan.wish, mine?.llm ?? null, key, llmTimeoutMs);
  yield running(plan, mine);
}

/** True if files can be created in a folder, or if the folder is missing and can be created: its nearest parent that exists decides. */
function canWrite(folder: string): boolean {
  try {
    let at = folder;
    // Not existsSync: a link to nothing exists, and no folder can be created in its place.
    while (lstatSync(at, { throwIfNoEntry: false }) === undefined && at !== dirname(at)) at = dirname(at);
    accessSync(at, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function configuration(plan: WorkerPlan): Check {
  const { config, configFile, folder } = plan;
  if (!canWrite(folder))
    return { name: "configuration", state: "fail", message: `${folder} cannot be written`, fix: "use another folder: --config-dir DIR", exit: EXIT.key };
  if (config !== null) return { name: "configuration", state: "ok", message: configFile };
  return {
    name: "configuration",
    state: "warn",
    message: "none: the options and the defaults apply",
    fix: `to keep them: ${ownCommand(`worker init${folderOption(plan)}`)}`,
  };
}

async function task(key: KeyPair): Promise<Check> {
  const run = await dryRun(key, null, AbortSignal.timeout(LLM_TIMEOUT_MS));
  if (run.ok) return { name: "task", state: "ok", message: `a trial job took ${run.ms} ms, its receipt is valid` };
  return {
    name: "task",
    state: "fail",
    message: `a trial job failed: ${run.message}`,
    fix: "install compute-router again; if that does not help, report it",
    exit: EXIT.error,
  };
}

/** Checks the LLM that is wanted. `used` is the one of this worker if it runs: its options can differ from those of doctor. */
async function* llm(wish: LlmWish | null, used: StatusReport["llm"], key: KeyPair, timeoutMs: number): AsyncGenerator<Check, void, undefined> {
  if (wish === null) return yield { name: "LLM", state: "ok", message: "not used: tasks only" };
  if (needsInstall(wish)) return yield { name: "LLM", state: "warn", message: "the embedded runtime is not installed yet", fix: "the first start installs it" };
  const signal = AbortSignal.timeout(timeoutMs);
  const found = await llmFinder(wish, () => {})(signal).catch((error: unknown) => ({
    ok: false as const,
    tried: [],
    hint: error instanceof Error ? error.message : "unexpected error",
  }));
  if (!found.ok) {
    const tried = found.tried.filter(({ why }) => why !== "not running").map(({ name, url, why }) => `${name} at ${url} ${why}`);
    // A server without the wanted model was found all the same.
    const isFound = found.tried.some(({ why }) => why.startsWith("has no model"));
    const isAsked = wish.kind === "embedded" || wish.llmUrl !== undefined;
    if (used !== null && !isFound && !isAsked)
      return yield {
        name: "LLM",
        state: "warn",
        message: `no LLM server found, but the running worker uses ${used.model}`,
        fix: `to check that one, give doctor the same ${used.runtime === "embedded" ? "--runtime embedded" : "--llm-url"}`,
      };
    return yield {
      name: "LLM",
      state: "warn",
      message: isFound ? `${tried.join("; ")}: tasks only` : `no LLM server found: tasks only${tried.length === 0 ? "" : ` (${tried.join("; ")})`}`,
      fix: found.hint,
    };
  }
  const { runtime } = found;
  try {
    const others = runtime.models.length - 1;
    const message = `${runtime.model} by ${runtime.name}${others > 0 ? `, and ${others} more` : ""}`;
    const fix = namingProblem(runtime);
    yield fix === null ? { name: "LLM", state: "ok", message } : { name: "LLM", state: "warn", message, fix };
    const run = await dryRun(key, runtime, signal);
    if (!run.ok)
      return yield {
        name: "answer",
        state: "warn",
        message: `a trial prompt failed: ${signal.aborted ? `no answer in ${timeoutMs / 1000} s` : run.message}`,
        fix: "see the log of the runtime, or use another model: --model NAME",
      };
    const speed = run.tokens === null || run.ms === 0 ? "" : `, ${Math.round((1000 * run.tokens) / run.ms)} tok/s`;
    yield { name: "answer", state: "ok", message: `a trial prompt took ${run.ms} ms${speed}, its receipt is valid` };
  } finally {
    await runtime.close();
  }
}

function running(plan: WorkerPlan, mine: StatusReport | undefined): Check {
  const [unreported] = mine === undefined ? unreportedWorkers(plan.folder) : [];
  if (unreported !== undefined)
    return { name: "running", state: "warn", message: `process ${unreported.pid} ${NO_REPORT}`, fix: `is the disk of ${plan.folder} full?` };
  if (mine === undefined)
    return { name: "running", state: "ok", message: `no; to start it${needsNewerNode()}: ${ownCommand(`worker start${folderOption(plan)}`)}` };
  return { name: "running", state: "ok", message: `yes, as process ${mine.pid}; for details: ${ownCommand(`worker status${folderOption(plan)}`)}` };
}

/** A check as one line, and its fix as a second line. Both are escaped, because they contain text of coordinators and runtimes. */
export function checkLines(check: Check, { color, width }: { color: boolean; width: number }): string {
  const { mark, color: code } = MARKS[check.state];
  const line = `${color ? `\u001B[${code}m${mark}\u001B[39m` : mark} ${untrusted(check.name).padEnd(width)}  ${untrusted(check.message)}`;
  return check.state === "ok" || check.fix === undefined ? line : `${line}\n  ${" ".repeat(width)}  → ${untrusted(check.fix)}`;
}

/** Checks whether a worker can work for a coordinator: it answers, the clocks agree, and its socket opens and names the right host. */
export async function checkCoordinator({ url, network }: CoordinatorPlace): Promise<Check[]> {
  const name = coordinatorName(url);
  const answer = await askHealth(url);
  if (!answer.ok)
    return [{ name, state: "fail", message: answer.reason, fix: "is the address right, and is the coordinator running?", exit: EXIT.unreachable }];
  const health = answer.value;
  const plural = health.workersOnline === 1 ? "worker" : "workers";
  const reached: Check =
    network !== undefined && network !== health.network
      ? {
          name,
          state: "fail",
          message: `serves ${health.network}, but this worker works only for ${network}`,
          fix: "correct --network, or `network` in the configuration",
          exit: EXIT.refused,
        }
      : { name, state: "ok", message: `${health.network}, ${health.workersOnline} ${plural} online, answered in ${health.ms} ms` };
  return [reached, clock(health.skewMs), await checkSocket(url)];
}

async function askHealth(url: string): Promise<Result<SeenHealth, string>> {
  const before = Date.now();
  try {
    const response = await fetch(`${coordinatorUrls(url).base}/v1/health`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const text = await response.text();
    const after = Date.now();
    if (!response.ok) return { ok: false, reason: `answers HTTP ${response.status}` };
    const health = Health.safeParse(parseJson(text));
    if (!health.success) return { ok: false, reason: "answers, but is not a coordinator" };
    const { network, workers_online: workersOnline, timestamp } = health.data;
    return { ok: true, value: { network, workersOnline, ms: after - before, skewMs: (before + after) / 2 - Date.parse(timestamp) } };
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError") return { ok: false, reason: `no answer in ${TIMEOUT_MS / 1000} s` };
    const reason = reasonOf(error);
    return { ok: false, reason: reason === null ? "cannot be reached" : `cannot be reached: ${reason}` };
  }
}

function clock(skewMs: number): Check {
  const off = Math.abs(skewMs);
  const side = `${off < 1_000 ? `${Math.round(off)} ms` : `${Math.round(off / 1000)} s`} ${skewMs < 0 ? "behind" : "ahead of"} the coordinator's`;
  const verdict = verdictOf(off, SESSION_TIMING);
  if (verdict === "right") return { name: "clock", state: "ok", message: side };
  const fix = "set this machine's clock, preferably by NTP (timedatectl set-ntp true)";
  if (verdict === "doubtful")
    return {
      name: "clock",
      state: "warn",
      message: `${side}: if it is off by more than ${TIMING.receiptSkew / 60_000} minutes, the coordinator refuses the receipts`,
      fix,
    };
  return { name: "clock", state: "fail", message: `${side}: the coordinator would refuse every receipt`, fix, exit: EXIT.refused };
}

/** Opens a socket and reads the challenge. It does not register, because that would replace this worker if it is running [WS7]. */
async function checkSocket(url: string): Promise<Check> {
  if (!hasWebSocket()) return { name: "socket", state: "warn", message: "not checked: this Node has no WebSocket" };
  const { host } = new URL(url);
  const frame = await firstFrame(url);
  if (!frame.ok)
    return { name: "socket", state: "fail", message: frame.reason, fix: "a proxy in front of it must forward the Upgrade header", exit: EXIT.unreachable };
  const challenge = Challenge.safeParse(parseJson(frame.value));
  if (!challenge.success) return { name: "socket", state: "warn", message: "opens, but sends no challenge: this worker cannot prove its key there" };
  if (challenge.data.host.toLowerCase() === host) return { name: "socket", state: "ok", message: "opens, and asks for a signature for the right host" };
  const fix = `use ${challenge.data.host}, or set PUBLIC_HOST=${host} on the coordinator`;
  return {
    name: "socket",
    state: "fail",
    message: `the coordinator states that its host is ${challenge.data.host}, not ${host}: the worker will not sign`,
    fix,
    exit: EXIT.refused,
  };
}

/** The first frame of a new socket, empty if none comes in time; or why there is no socket, in the words of `worker start`. */
async function firstFrame(url: string): Promise<Result<string, string>> {
  const socket = new ReasonedSocket(url);
  let isOpen = false;
  let timer: NodeJS.Timeout | undefined;
  const frame = await new Promise<Result<string, string>>((resolve) => {
    socket.addEventListener("open", () => (isOpen = true));
    socket.addEventListener("message", ({ data }) => resolve({ ok: true, value: typeof data === "string" ? data : "" }));
    socket.addEventListener("close", ({ code, reason }) => {
      resolve({ ok: false, reason: isOpen ? `the coordinator closed the socket: ${reason || `code ${code}`}` : (reason ?? "no connection") });
    });
    timer = setTimeout(() => resolve(isOpen ? { ok: true, value: "" } : { ok: false, reason: `no connection in ${TIMEOUT_MS / 1000} s` }), TIMEOUT_MS);
  });
  clearTimeout(timer);
  socket.close();
  return frame;
}

/** The outcome of a job without a coordinator. `tokens` are those of an LLM's answer. */
type DryRun = { ok: true; ms: number; tokens: number | null } | { ok: false; message: string };

const Frame = z.object({
  output: z.unknown(),
  receipt: z.object({ job_id: z.string(), provider_pubkey: z.string(), output_hash: z.string(), completed_at: z.string(), payment_ref: z.null() }),
  receipt_signature: z.string(),
});

/** Runs one small job as if it came from a coordinator, and checks the receipt. It is an LLM_INFER if there is a runtime, otherwise a TASK. */
async function dryRun(key: KeyPair, runtime: Pick<Runtime, "generate"> | null, signal: AbortSignal): Promise<DryRun> {
  const tasks = new ThreadedTasks(taskThread);
  const execute = createExecutor({ task: tasks.run, ...(runtime !== null && { llm: () => runtime }) });
  const jobId = randomUUID();
  const payload = runtime === null ? { task_type: "classify", input: "What a wonderful day" } : { prompt: "Say hello.", max_tokens: LIMITS.defaultMaxTokens };
  try {
    tasks.warmUp();
    const before = performance.now();
    const execution = await execute({ jobId, attempt: 1, jobType: runtime === null ? "TASK" : "LLM_INFER", payload }, { signal, onProgress: () => {} });
    const ms = Math.round(performance.now() - before);
    if (!execution.ok) return { ok: false, message: execution.message };
    const sealed = await seal(seedSigner(key), { jobId, attempt: 1 }, execution.output, new Date().toISOString());
    if (!sealed.ok) return { ok: false, message: sealed.message };
    const { output, receipt, receipt_signature: signature } = Frame.parse(JSON.parse(sealed.frame));
    const check = verifyReceipt({ ...receipt, signature }, output);
    return check.ok ? { ok: true, ms, tokens: execution.tokens } : { ok: false, message: `its receipt is not valid: ${check.reason}` };
  } finally {
    await tasks.close();
  }
}
