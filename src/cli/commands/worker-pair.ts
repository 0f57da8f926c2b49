import { fingerprintOf } from "../../receipt/fingerprint.ts";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { claimPairing, pairedText } from "../claim.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { print } from "../print.ts";
import { WORKER_PLACE_ARGS } from "../worker-args.ts";
import { workerPlan } from "../worker-plan.ts";

/** `compute-router worker pair`. */
export const workerPair = command({
  name: "worker pair",
  description: "Let this worker run the PRIVATE jobs of whoever made the code; the worker may be running",
  args: {
    code: { type: "positional", required: true, description: "Six characters, from the user's `compute-router pair create`" },
    ...WORKER_PLACE_ARGS,
    json: { type: "boolean", description: "Print JSON" },
  },
  many: ["url"],
  run: async (args, all) => {
    const { coordinators, keyFile } = workerPlan(args, all("url"));
    const reading = readKeyFile(keyFile);
    if (!reading.ok) throw new CliError(EXIT.key, reading.message);
    const { publicKey } = reading.key;
    const { coordinator, pairedAt } = await claimPairing(
      coordinators.map(({ url }) => url),
      reading.key,
      args.code,
    );
    print(
      args.json === true
        ? JSON.stringify({ coordinator, provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), paired_at: pairedAt })
        : pairedText(`paired at ${coordinator}`, publicKey),
    );
  },
});
