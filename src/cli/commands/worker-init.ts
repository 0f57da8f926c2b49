import { ownCommand, shellWord } from "../../worker/node/command-name.ts";
import { type KeyReading, readOrMakeKeyFile } from "../../worker/node/key-file.ts";
import { untrusted } from "../../worker/node/printable.ts";
import { shortKey } from "../../worker/node/status-line.ts";
import { type WorkerConfig, writeConfig } from "../../worker/node/worker-config.ts";
import { claimPairing } from "../claim.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { print, printJson } from "../print.ts";
import { isInteractive, withPrompt } from "../prompt.ts";
import { WORKER_ARGS } from "../worker-args.ts";
import { configOfWish, type WorkerPlan, workerPlan } from "../worker-plan.ts";
import { askSetup, type Setup } from "../worker-setup.ts";

/** `compute-router worker init`. */
export const workerInit = command({
  name: "worker init",
  description: "Set up a worker: key and configuration; asks on a terminal, else takes the options",
  args: {
    ...WORKER_ARGS,
    pair: { type: "string", valueHint: "code", description: "Claim this pairing code too" },
    yes: { type: "boolean", description: "Ask nothing: take the options, and the defaults for the rest" },
    force: { type: "boolean", description: "Replace a configuration that is there" },
    json: { type: "boolean", description: "Ask nothing, and print JSON" },
  },
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    const asks = isInteractive() && args.yes !== true && args.json !== true;
    if (!asks && plan.config !== null && args.force !== true) throw new CliError(EXIT.usage, `${plan.configFile} is there already; to replace it, say --force`);
    const color = (process.env["NO_COLOR"] ?? "") === "";
    const setup: Setup = asks
      ? await withPrompt((prompt) => askSetup(plan, args.pair ?? "", prompt, color))
      : { coordinators: plan.coordinators, name: plan.name ?? "", wish: plan.wish, code: args.pair ?? "" };
    const reading = keyOf(plan);
    const config = configOf(setup, plan, args);
    writeConfig(plan.configFile, config);
    const { key, made } = reading;
    if (args.json !== true) {
      print(`${asks ? "\n" : ""}key            ${shortKey(key.publicKey)} ${made ? "made: keep a copy of" : "in"} ${untrusted(plan.keyFile)}`);
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
    print(`\nTo check the setup: ${ownCommand(`worker doctor${place}`)}\nTo work: ${ownCommand(`worker start${place}`)}`);
  },
});

function keyOf({ keyFile }: WorkerPlan): Extract<KeyReading, { ok: true }> {
  const reading = readOrMakeKeyFile(keyFile);
  if (!reading.ok) throw new CliError(EXIT.key, reading.message);
  return reading;
}

function configOf(
  { coordinators, name, wish }: Setup,
  { config, keyFile, wish: planned }: WorkerPlan,
  args: { key?: string | undefined; metrics?: string | undefined },
): WorkerConfig {
  // Whole, because the worker may be started from another folder.
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
