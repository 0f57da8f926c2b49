import { defineCommand } from "citty";
import { fingerprintOf } from "../../receipt/fingerprint.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { untrusted } from "../../worker/node/printable.ts";
import { claimPairing, pairedText } from "../claim.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { KEY_ARGS, keyPlace } from "../key-option.ts";
import { print, printJson } from "../print.ts";
import { asking, SEEKER_ARGS } from "../seeker.ts";
import { pairCreate } from "./pair-create.ts";

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
    if (args.json === true) return printJson({ provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), paired_at: paired.pairedAt });
    print(pairedText("paired", publicKey));
  },
});

const list = command({
  name: "pair list",
  description: "List the workers that you have paired with: their keys in words, as their owners see them, and since when",
  args: SEEKER_ARGS,
  run: async (args) => {
    const { providers } = await asking(args, (client) => client.trust.list());
    if (args.json === true) return printJson(providers.map((provider) => ({ ...provider, fingerprint: fingerprintOf(provider.provider_pubkey) })));
    if (providers.length === 0) return print(`no paired workers; to pair one: ${ownCommand("pair create")}`);
    for (const { provider_pubkey, paired_at } of providers)
      print(`${fingerprintOf(provider_pubkey)}\n  paired ${untrusted(paired_at)}  key ${untrusted(provider_pubkey)}`);
  },
});

/** `compute-router pair create|claim|list`. */
export const pair = defineCommand({
  meta: { name: "compute-router pair", description: "Pair users with workers, for PRIVATE jobs" },
  subCommands: { create: pairCreate, claim, list },
});
