// `compute-router worker init`: creates key and configuration of a worker, with questions on a terminal or from options.
import { hostname } from "node:os";
import { ownCommand, shellWord } from "../../worker/node/command-name.ts";
import type { CoordinatorPlace } from "../../worker/node/desktop-worker.ts";
import { type KeyFileResult, readOrMakeKeyFile } from "../../worker/node/key-file.ts";
import { llmFinder, type LlmWish } from "../../worker/node/runtime-watch.ts";
import { shortKey, untrusted } from "../../worker/node/status-line.ts";
import { type WorkerConfig, writeConfig } from "../../worker/node/worker-config.ts";
import { CliError, command, EXIT } from "../command.ts";
import { checkCoordinator, checkLines } from "../doctor.ts";
import { isInteractive, type Prompt, withPrompt } from "../input.ts";
import { print, printJson } from "../print.ts";
import { coordinatorUrls } from "../seeker.ts";
import { needsNewerNode } from "../version.ts";
import { configOfWish, WORKER_ARGS, workerPlan, type WorkerPlan } from "../worker-plan.ts";
import { claimPairing } from "./pair.ts";

/** `compute-router worker init`. */
export const workerInit = command({
  name: "worker init",
  description: "Set up a worker: key and configuration. On a terminal it asks, otherwise it uses the options",
  args: {
    ...WORKER_ARGS,
    pair: { type: "string", valueHint: "code", description: "Claim this pairing code too" },
    yes: { type: "boolean", description: "Do not ask: use the options, and the defaults for the rest" },
    force: { type: "boolean", description: "Replace an existing configuration" },
    json: { type: "boolean", description: "Do not ask, and print JSON" },
  },
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    const asks = isInteractive() && args.yes !== true && args.json !== true;
    if (!asks && plan.config !== null && args.force !== true) throw new CliError(EXIT.usage, `${plan.configFile} exists already; to replace it, use --force`);
    const color = (process.env["NO_COLOR"] ?? "") === "";
    const setup: Setup = asks
      ? await withPrompt((prompt) => askSetup(plan, args.pair ?? "", prompt, color))
      : { coordinators: plan.coordinators, name: plan.name ?? "", wish: plan.wish, code: args.pair ?? "" };
    const reading = keyOf(plan);
    const config = configOf(setup, plan, args);
    writeConfig(plan.configFile, config);
    const { key, made } = reading;
    if (args.json !== true) {
      print(`${asks ? "\n" : ""}key            ${shortKey(key.publicKey)} ${made ? "created: keep a copy of" : "in"} ${untrusted(plan.keyFile)}`);
      print(`configuration  ${untrusted(plan.configFile)}`);
    }
    const urls = setup.coordinators.map(({ url }) => url);
    const claimed = setup.code === "" ? null : await claimPairing(urls, key, setup.code);
    if (args.json === true) {
      const paired = claimed === null ? null : { coordinator: claimed.coordinator, paired_at: claimed.pairedAt };
      return printJson({ config_file: plan.configFile, key_file: plan.keyFile, provider_pubkey: key.publicKey, key_made: made, paired });
    }
    if (claimed !== null) print(`paired         at ${untrusted(claimed.coordinator)}`);
    const place = args["config-dir"] === undefined ? "" : ` --config-dir ${shellWord(untrusted(args["config-dir"]))}`;
    print(`\nTo check the setup: ${ownCommand(`worker doctor${place}`)}\nTo work${needsNewerNode()}: ${ownCommand(`worker start${place}`)}`);
  },
});

function keyOf({ keyFile }: WorkerPlan): Extract<KeyFileResult, { ok: true }> {
  const reading = readOrMakeKeyFile(keyFile);
  if (!reading.ok) throw new CliError(EXIT.key, reading.message);
  return reading;
}

function configOf(
  { coordinators, name, wish }: Setup,
  { config, keyFile, wish: planned }: WorkerPlan,
  args: { key?: string | undefined; metrics?: string | undefined },
): WorkerConfig {
  // The absolute path, because the worker may be started in another folder.
  const key = args.key === undefined ? config?.key : keyFile;
  const metrics = args.metrics ?? config?.metrics;
  return {
    version: 1,
    coordinators: coordinators.map(({ url, network }) => ({ url, ...(network !== undefined && { network }) })),
    ...(name !== "" && { name }),
    llm: configOfWish(wish),
    ...(planned?.maxTokens !== undefined && { max_tokens: planned.maxTokens }),
    ...(key !== undefined && { key }),
    ...(metrics !== undefined && { metrics }),
  };
}

/** The result of the dialogue of `worker init`. */
export type Setup = { coordinators: readonly CoordinatorPlace[]; name: string; wish: LlmWish | null; code: string };

const WIDTH = 14;

/** Asks the questions of the setup. An empty line means the value of the option or of the configuration. */
export async function askSetup(plan: WorkerPlan, saidCode: string, prompt: Prompt, color: boolean): Promise<Setup> {
  print("An empty line means the value in brackets. Ctrl-C changes nothing.\n");
  const coordinators = await askCoordinators(plan, prompt, color);
  const name = await prompt.ask("Name to show for this worker", plan.name ?? hostname());
  const wish = await askLlm(plan.wish, prompt);
  const code = await prompt.ask("Pairing code of a user whose PRIVATE jobs it may run (empty: none)", saidCode);
  return { coordinators, name, wish, code };
}

async function askCoordinators(plan: WorkerPlan, prompt: Prompt, color: boolean): Promise<readonly CoordinatorPlace[]> {
  const usual = plan.coordinators.map(({ url }) => url).join(" ");
  for (;;) {
    const answer = await prompt.ask("Coordinator (several: separate them by spaces)", usual);
    const places = readPlaces(answer, plan.coordinators);
    if (typeof places === "string") {
      print(`  ${untrusted(places)}`);
      continue;
    }
    const checks = (await Promise.all(places.map((place) => checkCoordinator(place)))).flat();
    for (const check of checks) print(`  ${checkLines(check, { color, width: WIDTH }).replaceAll("\n", "\n  ")}`);
    if (checks.every(({ state }) => state !== "fail") || (await prompt.confirm("Use it anyway? The worker tries until it can connect", true))) return places;
  }
}

function readPlaces(text: string, known: readonly CoordinatorPlace[]): CoordinatorPlace[] | string {
  try {
    const urls = text
      .split(/[\s,]+/)
      .filter((word) => word !== "")
      .map((word) => coordinatorUrls(word).socket);
    return [...new Set(urls)].map((url) => known.find((place) => place.url === url) ?? { url });
  } catch (error) {
    return error instanceof Error ? error.message : "that is not a URL";
  }
}

async function askLlm(said: LlmWish | null, prompt: Prompt): Promise<LlmWish | null> {
  if (said === null || said.kind === "embedded") {
    const what = said === null ? "No LLM jobs, tasks only: keep this?" : "The embedded LLM (llama.cpp in a child process): keep it?";
    if (await prompt.confirm(what, true)) return said;
  }
  const wish: LlmWish = said?.kind === "found" ? said : { kind: "found" };
  print("  looking for an LLM …");
  const found = await llmFinder(wish, () => {})(AbortSignal.timeout(30_000));
  if (found.ok) {
    const { name, model, models } = found.runtime;
    await found.runtime.close();
    print(`  found ${untrusted(name)} with ${untrusted(models.slice(0, 6).join(", "))}${models.length > 6 ? ` and ${models.length - 6} more` : ""}`);
    if (!(await prompt.confirm("Use it for LLM jobs?", true))) return null;
    const chosen = models.length > 1 ? await askModel(models, model, prompt) : model;
    // The default model is not stored, because the server may have another first model later.
    return chosen === model && wish.model === undefined ? wish : { ...wish, model: chosen };
  }
  print(`  found none; to get one, ${untrusted(found.hint)}`);
  const choice = await prompt.ask("LLM: `find` (search for one regularly), `embedded` (a very small model, for a first try), or `none`", "find");
  if (/^e/i.test(choice)) return { kind: "embedded" };
  return /^n/i.test(choice) ? null : wish;
}

async function askModel(models: readonly string[], usual: string, prompt: Prompt): Promise<string> {
  for (;;) {
    const chosen = await prompt.ask("Model", usual);
    if (models.includes(chosen)) return chosen;
    print("  there is no such model; choose one from the list above");
  }
}
