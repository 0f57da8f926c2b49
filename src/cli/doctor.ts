import { accessSync, constants } from "node:fs";
import { keyPair, type KeyPair } from "../receipt/ed25519.ts";
import { ownCommand } from "../worker/node/command-name.ts";
import { dryRun } from "../worker/node/dry-run.ts";
import { readKeyFile } from "../worker/node/key-file.ts";
import { type LlmWish, llmFinder, needsInstall } from "../worker/node/llm-finder.ts";
import { shortKey } from "../worker/node/status-line.ts";
import { runningWorkers } from "../worker/node/status-file.ts";
import type { Check } from "./check.ts";
import { checkCoordinator } from "./coordinator-check.ts";
import { EXIT } from "./exit-code.ts";
import { hasWebSocket, NO_WEBSOCKET } from "./version.ts";
import type { WorkerPlan } from "./worker-plan.ts";

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
  if (mine === undefined) return { name: "running", state: "ok", message: `no; to start it: ${ownCommand("worker start")}` };
  return { name: "running", state: "ok", message: `yes, as process ${mine.pid}; more: ${ownCommand("worker status")}` };
}
