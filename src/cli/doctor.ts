import { accessSync, constants } from "node:fs";
import { keyPair, type KeyPair } from "../receipt/ed25519.ts";
import { ownCommand } from "../worker/node/command-name.ts";
import { dryRun } from "../worker/node/dry-run.ts";
import { readKeyFile } from "../worker/node/key-file.ts";
import { llmFinder, type LlmWish, needsInstall } from "../worker/node/runtime-watch.ts";
import { shortKey, untrusted } from "../worker/node/status-line.ts";
import { runningWorkers } from "../worker/node/status-file.ts";
import { type CliError, EXIT } from "./command.ts";
import { hasWebSocket, needsNewerNode, NO_WEBSOCKET } from "./version.ts";
import type { WorkerPlan } from "./worker-plan.ts";
import * as z from "zod";
import { TIMING } from "../protocol/limits.ts";
import { Health } from "../protocol/rest.ts";
import { parseJson } from "../protocol/text.ts";
import { reasonOf } from "../worker/node/connect-reason.ts";
import { coordinatorName, type CoordinatorPlace } from "../worker/node/desktop-worker.ts";
import { SESSION_TIMING, verdictOf } from "../worker/session/index.ts";
import { coordinatorUrls } from "./seeker.ts";

/** The first answer of a model that has to be loaded. */
const LLM_TIMEOUT_MS = 120_000;

/** Checks everything that a worker needs, and yields each result as soon as it is known. Changes nothing. */
export async function* examine(plan: WorkerPlan): AsyncGenerator<Check, void, undefined> {
  if (hasWebSocket()) yield { name: "node", state: "ok", message: process.versions.node };
  else yield { name: "node", state: "fail", message: `${process.versions.node} has no WebSocket`, fix: NO_WEBSOCKET, exit: EXIT.error };
  yield configuration(plan);
  const reading = readKeyFile(plan.keyFile);
  if (reading.ok) yield { name: "key", state: "ok", message: `${shortKey(reading.key.publicKey)} in ${plan.keyFile}` };
  else if (reading.reason === "missing")
    yield { name: "key", state: "warn", message: `none at ${plan.keyFile} yet`, fix: `the first start makes one, or now: ${ownCommand("worker init")}` };
  else yield { name: "key", state: "fail", message: reading.message, fix: "or use another key file: --key FILE", exit: EXIT.key };
  for (const coordinator of plan.coordinators) yield* await checkCoordinator(coordinator);
  // Any key will do to see whether this machine can sign.
  const key = reading.ok ? reading.key : keyPair(crypto.getRandomValues(new Uint8Array(32)));
  yield await task(key);
  yield* llm(plan.wish, key);
  yield running(plan, reading.ok ? reading.key.publicKey : null);
}

function configuration({ config, configFile, folder }: WorkerPlan): Check {
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
    if (!isMissing)
      return { name: "configuration", state: "fail", message: `${folder} cannot be written`, fix: "say another folder: --config-dir DIR", exit: EXIT.key };
  }
  if (config !== null) return { name: "configuration", state: "ok", message: configFile };
  return { name: "configuration", state: "warn", message: "none: the options and the defaults apply", fix: `to keep them: ${ownCommand("worker init")}` };
}

async function task(key: KeyPair): Promise<Check> {
  const run = await dryRun(key, null, AbortSignal.timeout(LLM_TIMEOUT_MS));
  if (run.ok) return { name: "task", state: "ok", message: `a trial job took ${run.ms} ms, its receipt holds` };
  return {
    name: "task",
    state: "fail",
    message: `a trial job failed: ${run.message}`,
    fix: "install compute-router again; if that does not help, report it",
    exit: EXIT.error,
  };
}

async function* llm(wish: LlmWish | null, key: KeyPair): AsyncGenerator<Check, void, undefined> {
  if (wish === null) return yield { name: "LLM", state: "ok", message: "not wanted: tasks only" };
  if (needsInstall(wish)) return yield { name: "LLM", state: "warn", message: "the embedded runtime is not installed yet", fix: "the first start installs it" };
  const signal = AbortSignal.timeout(LLM_TIMEOUT_MS);
  const found = await llmFinder(wish, () => {})(signal).catch((error: unknown) => ({
    ok: false as const,
    tried: [],
    hint: error instanceof Error ? error.message : "unexpected error",
  }));
  if (!found.ok) {
    const tried = found.tried.map(({ name, url, why }) => `${name} at ${url} ${why}`).filter((line) => !line.endsWith("not running"));
    return yield { name: "LLM", state: "warn", message: `no server answers: tasks only${tried.length === 0 ? "" : ` (${tried.join("; ")})`}`, fix: found.hint };
  }
  const { runtime } = found;
  try {
    const others = runtime.models.length - 1;
    yield { name: "LLM", state: "ok", message: `${runtime.model} by ${runtime.name}${others > 0 ? `, and ${others} more` : ""}` };
    const run = await dryRun(key, runtime, signal);
    if (!run.ok)
      return yield {
        name: "answer",
        state: "warn",
        message: `a trial prompt failed: ${run.message}`,
        fix: "does the runtime's own log say why? Another model: --model NAME",
      };
    const speed = run.tokens === null || run.ms === 0 ? "" : `, ${Math.round((1000 * run.tokens) / run.ms)} tok/s`;
    yield { name: "answer", state: "ok", message: `a trial prompt took ${run.ms} ms${speed}, its receipt holds` };
  } finally {
    await runtime.close();
  }
}

function running({ folder }: WorkerPlan, publicKey: string | null): Check {
  const mine = runningWorkers(folder).find(({ provider_pubkey }) => provider_pubkey === publicKey);
  if (mine === undefined) return { name: "running", state: "ok", message: `no; to start it${needsNewerNode()}: ${ownCommand("worker start")}` };
  return { name: "running", state: "ok", message: `yes, as process ${mine.pid}; more: ${ownCommand("worker status")}` };
}

/** One thing that was looked at. `warn` does not keep a worker from working. */
export type Check =
  | { name: string; state: "ok"; message: string }
  | { name: string; state: "warn"; message: string; fix?: string }
  | { name: string; state: "fail"; message: string; fix: string; exit: CliError["exit"] };

const MARKS = { ok: { mark: "✓", color: 32 }, warn: { mark: "!", color: 33 }, fail: { mark: "✗", color: 31 } } as const;

/** A check as one line, and what to do about it as a second one. Coordinators and runtimes wrote a part of it. */
export function checkLines(check: Check, { color, width }: { color: boolean; width: number }): string {
  const { mark, color: code } = MARKS[check.state];
  const line = `${color ? `\u001B[${code}m${mark}\u001B[39m` : mark} ${untrusted(check.name).padEnd(width)}  ${untrusted(check.message)}`;
  return check.state === "ok" || check.fix === undefined ? line : `${line}\n  ${" ".repeat(width)}  → ${untrusted(check.fix)}`;
}

const TIMEOUT_MS = 5_000;

const Challenge = z.object({ type: z.literal("challenge"), network: z.string(), host: z.string() });

/** What a coordinator says about itself, and how well this machine's clock agrees with it. */
type CheckResponse = { network: string; workersOnline: number; ms: number; skewMs: number };

/** Whether a worker can work for a coordinator: it answers, the clocks agree, its socket opens and names the host that was dialled. */
export async function checkCoordinator({ url, network }: CoordinatorPlace): Promise<Check[]> {
  const name = coordinatorName(url);
  const answer = await askHealth(url);
  if (typeof answer === "string") {
    return [
      {
        name,
        state: "fail",
        message: answer,
        fix: "is the address right, and does the coordinator run?",
        exit: EXIT.unreachable,
      },
    ];
  }
  const plural = answer.workersOnline === 1 ? "worker" : "workers";
  const reached: Check =
    network !== undefined && network !== answer.network
      ? {
          name,
          state: "fail",
          message: `serves ${answer.network}, but ${network} is wanted`,
          fix: "correct --network, or `network` in the configuration",
          exit: EXIT.refused,
        }
      : { name, state: "ok", message: `${answer.network}, ${answer.workersOnline} ${plural} online, answered in ${answer.ms} ms` };
  return [reached, clock(answer.skewMs), await checkSocket(url)];
}

async function askHealth(url: string): Promise<CheckResponse | string> {
  const before = Date.now();
  try {
    const response = await fetch(`${coordinatorUrls(url).base}/v1/health`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const text = await response.text();
    const after = Date.now();
    if (!response.ok) return `answers HTTP ${response.status}`;
    const health = Health.safeParse(parseJson(text));
    if (!health.success) return "answers, but is not a coordinator";
    const { network, workers_online: workersOnline, timestamp } = health.data;
    return { network, workersOnline, ms: after - before, skewMs: (before + after) / 2 - Date.parse(timestamp) };
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError") return `no answer in ${TIMEOUT_MS / 1000} s`;
    const reason = reasonOf(error);
    return reason === null ? "cannot be reached" : `cannot be reached: ${reason}`;
  }
}

function clock(skewMs: number): Check {
  const off = Math.abs(skewMs);
  const side = `${off < 1_000 ? `${Math.round(off)} ms` : `${Math.round(off / 1000)} s`} ${skewMs < 0 ? "behind" : "ahead of"} the coordinator's`;
  const verdict = verdictOf(off, SESSION_TIMING);
  if (verdict === "right") return { name: "clock", state: "ok", message: side };
  const fix = "set this machine's clock, best by NTP (timedatectl set-ntp true)";
  if (verdict === "doubtful")
    return { name: "clock", state: "warn", message: `${side}: receipts are refused beyond ${TIMING.receiptSkew / 60_000} minutes`, fix };
  return { name: "clock", state: "fail", message: `${side}: its receipts are not valid`, fix, exit: EXIT.refused };
}

/** Opens a socket and reads the challenge. It does not register: that would replace this worker if it runs [WS7]. */
async function checkSocket(url: string): Promise<Check> {
  if (!hasWebSocket()) return { name: "socket", state: "warn", message: "not checked: this Node has no WebSocket" };
  const { host } = new URL(url);
  const socket = new WebSocket(url);
  let timer: NodeJS.Timeout | undefined;
  const text = await new Promise<string | null>((resolve) => {
    socket.addEventListener("message", ({ data }) => resolve(typeof data === "string" ? data : ""));
    socket.addEventListener("close", () => resolve(null));
    timer = setTimeout(() => resolve(socket.readyState === WebSocket.OPEN ? "" : null), TIMEOUT_MS);
  });
  clearTimeout(timer);
  socket.close();
  if (text === null) {
    return {
      name: "socket",
      state: "fail",
      message: "the coordinator takes no WebSocket there",
      fix: "a proxy in between has to pass the Upgrade header on",
      exit: EXIT.unreachable,
    };
  }
  const challenge = Challenge.safeParse(parseJson(text));
  if (!challenge.success) return { name: "socket", state: "warn", message: "opens, but sends no challenge: this worker cannot prove its key there" };
  if (challenge.data.host.toLowerCase() === host) return { name: "socket", state: "ok", message: "opens, and asks for a signature for the right host" };
  const fix = `dial ${challenge.data.host}, or set PUBLIC_HOST=${host} at the coordinator`;
  return {
    name: "socket",
    state: "fail",
    message: `the coordinator calls itself ${challenge.data.host}, ${host} was dialled: no signature is given`,
    fix,
    exit: EXIT.refused,
  };
}
