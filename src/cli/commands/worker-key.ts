// `compute-router worker key path|show|export|rotate`: the worker's key file.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { defineCommand } from "citty";
import { toHex } from "../../receipt/bytes.ts";
import { fingerprintOf, type KeyPair } from "../../receipt/ed25519.ts";
import { placeOnce, readKeyFile, rotateKeyFile } from "../../worker/node/key-file.ts";
import { runningWorkers } from "../../worker/node/status-file.ts";
import { shortKey, untrusted } from "../../worker/node/status-line.ts";
import { workerId } from "../../worker/node/worker-lock.ts";
import { CliError, command, EXIT } from "../command.ts";
import { isInteractive, withPrompt } from "../input.ts";
import { print, printJson, printUntrusted } from "../print.ts";
import { KEY_ARGS, workerPlan, type WorkerPlan } from "../worker-plan.ts";

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
    if (args.force !== true && hasResults(plan, old))
      throw new CliError(EXIT.key, "finished results of this key are not delivered yet: start the worker once more, or discard them with --force");
    if (args.yes !== true && !(await agreed(old))) throw new CliError(EXIT.usage, "nothing was changed");
    const { key, oldFile } = rotateKeyFile(plan.keyFile, old);
    if (args.json === true) return printJson({ provider_pubkey: key.publicKey, key_file: plan.keyFile, old_pubkey: old.publicKey, old_key_file: oldFile });
    print(`new key ${shortKey(key.publicKey)} in ${untrusted(plan.keyFile)}\nold key ${shortKey(old.publicKey)} in ${untrusted(oldFile)}`);
    print("Users who were paired with the old key must pair again.");
  },
});

async function agreed({ publicKey }: KeyPair): Promise<boolean> {
  if (!isInteractive())
    throw new CliError(EXIT.usage, "a new key has neither the pairings nor the stake of the old one; to do it without a question, use --yes");
  return withPrompt(({ confirm }) => confirm(`The new key starts without the pairings and the stake of ${shortKey(publicKey)}. Continue?`, false));
}

function hasResults({ coordinators, folder }: WorkerPlan, { publicKey }: KeyPair): boolean {
  return coordinators.some(({ url }) => existsSync(join(folder, `worker-${workerId(url, publicKey)}.results.json`)));
}

function keyIn(file: string): KeyPair {
  const reading = readKeyFile(file);
  if (!reading.ok) throw new CliError(EXIT.key, reading.message);
  return reading.key;
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
