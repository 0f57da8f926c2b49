import { defineCommand } from "citty";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { KEY_ARGS, keyPlace } from "../key-option.ts";
import { print } from "../print.ts";

const path = command({
  name: "worker key path",
  description: "Print where the worker's key file is",
  args: KEY_ARGS,
  run: (args) => print(keyPlace(args).keyFile),
});

const show = command({
  name: "worker key show",
  description: "Print the worker's public key (never the secret)",
  args: { ...KEY_ARGS, json: { type: "boolean", description: "Print JSON" } },
  run: (args) => {
    const { keyFile } = keyPlace(args);
    const reading = readKeyFile(keyFile);
    if (!reading.ok) throw new CliError(EXIT.key, reading.message);
    print(args.json === true ? JSON.stringify({ provider_pubkey: reading.key.publicKey, key_file: keyFile }) : reading.key.publicKey);
  },
});

/** `compute-router worker key path|show`. */
export const workerKey = defineCommand({ meta: { name: "compute-router worker key", description: "The worker's key" }, subCommands: { path, show } });
