// `compute-router worker init` creates key and configuration of a worker, with questions on a terminal or from options; `worker key path|show|export|rotate` is
// about the key file afterwards.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { defineCommand } from "citty";
import { toHex } from "../../receipt/bytes.ts";
import { fingerprintOf, type KeyPair, shortKey } from "../../receipt/ed25519.ts";
import { placeOnce } from "../../worker/node/atomic-files.ts";
import { needsNewerNode, ownCommand, shellWord } from "../../worker/node/program.ts";
import type { CoordinatorPlace } from "../../worker/node/desktop-worker.ts";
import { codeOf } from "../../worker/node/error-code.ts";
import { type KeyFileResult, readKeyFile, readOrMakeKeyFile, rotateKeyFile, type Rotation } from "../../worker/node/key-file.ts";
import { llmFinder, type LlmWish } from "../../worker/node/runtime-watch.ts";
import { namesIn } from "../../worker/node/worker-lock.ts";
import { NO_REPORT, runningWorkers, unreportedWorkers } from "../../worker/node/worker-status.ts";
import { untrusted } from "../../protocol/text.ts";
import { type WorkerConfig, writeConfig } from "../../worker/node/worker-config.ts";
import { CliError, command, EXIT, print, printJson, printUntrusted } from "../command.ts";
import { checkCoordinator, checkLines } from "../doctor.ts";
import { isInteractive, type Prompt, withPrompt } from "../input.ts";
import { coordinatorUrls } from "../seeker.ts";
import { configOfWish, KEY_ARGS, namedTwice, WORKER_ARGS, workerPlan, type WorkerPlan } from "../worker-plan.ts";
import { claimPairing, readPairingCode } from "./pair.ts";

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
    const saidCode = args.pair === undefined ? "" : readPairingCode(args.pair);
    const plan = workerPlan(args, all("url"), { replacesConfig: args.force === true });
    const asks = isInteractive() && args.yes !== true && args.json !== true;
    if (!asks && plan.config !== null && args.force !== true) throw new CliError(EXIT.usage, `${plan.configFile} exists already; to replace it, use --force`);
    const color = (process.env["NO_COLOR"] ?? "") === "";
    const setup: Setup = asks
      ? await withPrompt((prompt) => askSetup(plan, saidCode, prompt, color))
      : { coordinators: plan.coordinators, name: plan.name ?? "", wish: plan.wish, code: saidCode };
    const result = keyOf(plan);
    keepConfig(plan.configFile, configOf(setup, plan, args));
    const { key, made } = result;
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
  const result = readOrMakeKeyFile(keyFile);
  if (!result.ok) throw new CliError(EXIT.key, result.message);
  return result;
}

function keepConfig(file: string, config: WorkerConfig): void {
  try {
    writeConfig(file, config);
  } catch (error) {
    throw new CliError(EXIT.key, `cannot write the configuration ${file} (${codeOf(error)}); use --config-dir DIR`, { cause: error });
  }
}

function configOf(
  { coordinators, name, wish }: Setup,
  { config, keyFile, wish: planned }: WorkerPlan,
  args: { key?: string | undefined; metrics?: string | undefined },
): WorkerConfig {
  // The absolute path, because the worker may be started in another folder.
  const key = args.key === undefined ? config?.key : keyFile;
  const metrics = args.metrics ?? config?.metrics;
  // Also without an LLM, which may come back later.
  const maxTokens = planned?.maxTokens ?? config?.max_tokens;
  return {
    version: 1,
    coordinators: coordinators.map(({ url, network }) => ({ url, ...(network !== undefined && { network }) })),
    ...(name !== "" && { name }),
    llm: configOfWish(wish),
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...(key !== undefined && { key }),
    ...(metrics !== undefined && { metrics }),
  };
}

/** The result of the dialogue of `worker init`. */
type Setup = { coordinators: readonly CoordinatorPlace[]; name: string; wish: LlmWish | null; code: string };

const WIDTH = 14;

/** Asks the questions of the setup. An empty line means the value of the option or of the configuration. */
async function askSetup(plan: WorkerPlan, saidCode: string, prompt: Prompt, color: boolean): Promise<Setup> {
  print("An empty line means the value in brackets. Ctrl-C changes nothing.\n");
  const coordinators = await askCoordinators(plan, prompt, color);
  const name = await prompt.ask("Name to show for this worker", plan.name ?? hostname());
  const wish = await askLlm(plan.wish, prompt);
  const code = await askCode(saidCode, prompt);
  return { coordinators, name, wish, code };
}

async function askCode(said: string, prompt: Prompt): Promise<string> {
  for (;;) {
    const answer = await prompt.ask("Pairing code of a user whose PRIVATE jobs it may run (empty: none)", said);
    try {
      return answer === "" ? "" : readPairingCode(answer);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      print(`  ${error.message}`);
    }
  }
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
    const places = [...new Set(urls)].map((url) => known.find((place) => place.url === url) ?? { url });
    const twice = namedTwice(places);
    return twice === undefined ? places : `${twice} is named twice`;
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
    return chosen === model ? wish : { ...wish, model: chosen };
  }
  print(`  found none; to get one, ${untrusted(found.hint)}`);
  for (;;) {
    const choice = await prompt.ask("LLM: `find` (search for one regularly), `embedded` (a very small model, for a first try), or `none`", "find");
    if (/^e/i.test(choice)) return { kind: "embedded" };
    if (/^n/i.test(choice)) return null;
    if (/^f/i.test(choice)) return wish;
    print("  one of: find, embedded, none");
  }
}

async function askModel(models: readonly string[], usual: string, prompt: Prompt): Promise<string> {
  for (;;) {
    const chosen = await prompt.ask("Model", usual);
    if (models.includes(chosen)) return chosen;
    print("  there is no such model; choose one from the list above");
  }
}

const JSON_ARG = { type: "boolean", description: "Print JSON" } as const;

const path = command({
  name: "worker key path",
  description: "Print the path of the worker's key file",
  args: KEY_ARGS,
  run: (args) => printUntrusted(`${workerPlan(args, []).keyFile}\n`),
});

const show = command({
  name: "worker key show",
  description: "Print the worker's public key (never the secret), and on standard error the key in words",
  args: { ...KEY_ARGS, json: JSON_ARG },
  run: (args) => {
    const { keyFile } = workerPlan(args, []);
    const { publicKey } = keyIn(keyFile);
    if (args.json === true) return printJson({ provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), key_file: keyFile });
    // The only text on standard output, so that a script can use it.
    print(publicKey);
    process.stderr.write(`${fingerprintOf(publicKey)}\n`);
  },
});

const exportKey = command({
  name: "worker key export",
  description: "Copy the secret key into a new file, or with `-` to standard output; everyone who has it can act as this worker",
  args: { file: { type: "positional", required: true, description: "A file that does not exist yet, or -" }, ...KEY_ARGS },
  run: (args) => {
    const key = keyIn(workerPlan(args, []).keyFile);
    const text = toHex(key.secret);
    if (args.file === "-") return print(text);
    if (!placed(args.file, `${text}\n`)) throw new CliError(EXIT.usage, `${args.file} exists already; a key never replaces a file`);
    const file = untrusted(args.file);
    print(`${shortKey(key.publicKey)} copied to ${file}, which only you can read; to use it: --key ${file}`);
  },
});

const rotate = command({
  name: "worker key rotate",
  description: "Give the worker a new key and keep the old one beside it; pairings and stake stay with the old key",
  args: {
    ...KEY_ARGS,
    yes: { type: "boolean", description: "Do not ask" },
    force: { type: "boolean", description: "Replace the key even if finished results of the old key are not delivered yet" },
    json: JSON_ARG,
  },
  run: async (args) => {
    const plan = workerPlan(args, []);
    const old = keyIn(plan.keyFile);
    const user = runningWorkers(plan.folder).find(({ provider_pubkey }) => provider_pubkey === old.publicKey);
    if (user !== undefined) throw new CliError(EXIT.key, `process ${user.pid} works with this key; end it first`);
    const [unreported] = unreportedWorkers(plan.folder);
    if (unreported !== undefined) throw new CliError(EXIT.key, `process ${unreported.pid} ${NO_REPORT}, so it may work with this key; end it first`);
    if (args.force !== true && hasResults(plan.folder, old))
      throw new CliError(EXIT.key, "finished results of this key are not delivered yet: start the worker once more, or discard them with --force");
    if (args.yes !== true && !(await agreed(old))) throw new CliError(EXIT.usage, "nothing was changed");
    const { key, oldFile } = rotated(plan.keyFile, old);
    if (args.json === true) return printJson({ provider_pubkey: key.publicKey, key_file: plan.keyFile, old_pubkey: old.publicKey, old_key_file: oldFile });
    print(`new key ${shortKey(key.publicKey)} in ${untrusted(plan.keyFile)}\nold key ${shortKey(old.publicKey)} in ${untrusted(oldFile)}`);
    print("Users who were paired with the old key must pair again.");
  },
});

function rotated(file: string, old: KeyPair): Rotation {
  try {
    return rotateKeyFile(file, old);
  } catch (error) {
    throw new CliError(EXIT.key, `cannot replace the key in ${file} (${codeOf(error)})`, { cause: error });
  }
}

async function agreed({ publicKey }: KeyPair): Promise<boolean> {
  if (!isInteractive())
    throw new CliError(EXIT.usage, "a new key has neither the pairings nor the stake of the old one; to do it without a question, use --yes");
  return withPrompt(({ confirm }) => confirm(`The new key starts without the pairings and the stake of ${shortKey(publicKey)}. Continue?`, false));
}

/** True if a file of results has one of this key, for whichever coordinator: the worker may have been started with other ones than the configuration has. */
function hasResults(folder: string, { publicKey }: KeyPair): boolean {
  const files = namesIn(folder).filter((name) => /^worker-.*\.results\.json$/.test(name));
  return files.some((name) => contentOf(join(folder, name)).includes(publicKey));
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new CliError(EXIT.key, `cannot read ${file} (${codeOf(error)})`, { cause: error });
  }
}

function keyIn(file: string): KeyPair {
  const result = readKeyFile(file);
  if (!result.ok) throw new CliError(EXIT.key, result.message);
  return result.key;
}

function placed(file: string, content: string): boolean {
  try {
    return placeOnce(file, content);
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot write ${file}: ${error instanceof Error ? error.message : "unknown error"}`, { cause: error });
  }
}

/** `compute-router worker key path|show|export|rotate`. */
export const workerKey = defineCommand({
  meta: { name: "compute-router worker key", description: "The worker's key" },
  subCommands: { path, show, export: exportKey, rotate },
});
