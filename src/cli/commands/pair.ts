import { defineCommand } from "citty";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { shortKey } from "../../worker/node/status-line.ts";
import { claimPairing } from "../claim.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { KEY_ARGS, keyPlace } from "../key-option.ts";
import { print } from "../print.ts";
import { asking, SEEKER_ARGS } from "../seeker.ts";

const create = command({
  name: "pair create",
  description: "Get a code that a worker's owner can claim, so that the worker may run your PRIVATE jobs",
  args: SEEKER_ARGS,
  run: async (args) => {
    const code = await asking(args, (client) => client.trust.create());
    if (args.json === true) return print(JSON.stringify(code));
    print(`${code.pairing_code}\nvalid until ${code.expires_at}; on the worker's machine: compute-router pair claim ${code.pairing_code}`);
  },
});

const claim = command({
  name: "pair claim",
  description: "Let this machine's worker run the PRIVATE jobs of whoever made the code",
  args: {
    code: { type: "positional", required: true, description: "Six characters, from `pair create`" },
    url: SEEKER_ARGS.url,
    ...KEY_ARGS,
    json: SEEKER_ARGS.json,
  },
  run: async (args) => {
    const reading = readKeyFile(keyPlace(args).keyFile);
    if (!reading.ok) throw new CliError(EXIT.key, reading.message);
    const { publicKey } = reading.key;
    const paired = await claimPairing([args.url], reading.key, args.code);
    // The user id is a secret of the other side: it is not shown.
    print(
      args.json === true
        ? JSON.stringify({ provider_pubkey: publicKey, paired_at: paired.pairedAt })
        : `paired: worker ${shortKey(publicKey)} may now run that user's PRIVATE jobs`,
    );
  },
});

const list = command({
  name: "pair list",
  description: "List the workers that you have paired with",
  args: SEEKER_ARGS,
  run: async (args) => {
    const { providers } = await asking(args, (client) => client.trust.list());
    if (args.json === true) return print(JSON.stringify(providers));
    if (providers.length === 0) return print("no paired workers; to pair one: compute-router pair create");
    for (const { provider_pubkey, paired_at } of providers) print(`${provider_pubkey}  ${paired_at}`);
  },
});

/** `compute-router pair create|claim|list`. */
export const pair = defineCommand({
  meta: { name: "compute-router pair", description: "Pair users with workers, for PRIVATE jobs" },
  subCommands: { create, claim, list },
});
