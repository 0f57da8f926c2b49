import { fingerprintOf } from "../../receipt/fingerprint.ts";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { runningWorkers } from "../../worker/node/status-file.ts";
import { claimPairing, pairedText } from "../claim.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { print, printJson } from "../print.ts";
import { WORKER_PLACE_ARGS } from "../worker-args.ts";
import { type WorkerPlan, workerPlan } from "../worker-plan.ts";

/** `compute-router worker pair`. */
export const workerPair = command({
  name: "worker pair",
  description: "Let this worker run the PRIVATE jobs of the user who made the code; without --url at the coordinators of the running worker",
  args: {
    code: { type: "positional", required: true, description: "Six characters, from the user's `pair create`" },
    ...WORKER_PLACE_ARGS,
    json: { type: "boolean", description: "Print JSON" },
  },
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    const reading = readKeyFile(plan.keyFile);
    if (!reading.ok) throw new CliError(EXIT.key, reading.message);
    const { publicKey } = reading.key;
    const urls = all("url").length > 0 ? [] : runningUrls(plan, publicKey);
    const { coordinator, pairedAt } = await claimPairing(urls.length > 0 ? urls : plan.coordinators.map(({ url }) => url), reading.key, args.code);
    if (args.json === true) return printJson({ coordinator, provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), paired_at: pairedAt });
    print(pairedText(`paired at ${coordinator}`, publicKey));
  },
});

/** The coordinators that the worker with this key works for now: its own options may name others than the configuration does. */
function runningUrls({ folder }: WorkerPlan, publicKey: string): string[] {
  const mine = runningWorkers(folder).filter(({ provider_pubkey }) => provider_pubkey === publicKey);
  return [...new Set(mine.flatMap(({ coordinators }) => coordinators.flatMap(({ url }) => url ?? [])))];
}
