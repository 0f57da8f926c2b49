// Kills, stalls, lost answers, old facilitators, cancellations: no transfer is lost, none is doubled, no job is unpaid. npm run chaos --prefix test/payment
import { parseArgs } from "node:util";
import { setup } from "../support/bundle.ts";
import { runChaos } from "./chaos/run.ts";
import type { Side } from "./support/bench.ts";

const USAGE = `node test/payment/chaos.ts [--side evm,svm] [--seconds N] [--kills N] [--payers N] [--workers N] [--seed N] [--rest N] [--rpc]
--rpc: the coordinator reads the chain. --rest: how many seconds everything may take to end once nothing fails any more.`;

const { values } = parseArgs({
  options: {
    side: { type: "string", default: "evm,svm" },
    seconds: { type: "string", default: "120" },
    kills: { type: "string", default: "12" },
    payers: { type: "string", default: "60" },
    workers: { type: "string", default: "16" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    rest: { type: "string", default: "240" },
    rpc: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const [seconds = 0, kills = 0, payers = 0, workers = 0, seed = 0, rest = 0] = [
  values.seconds,
  values.kills,
  values.payers,
  values.workers,
  values.seed,
  values.rest,
].map(Number);

const remove = await setup();
const bundle = process.env["COORDINATOR_BUNDLE"] ?? null;
let isGood = true;
for (const side of values.side.split(",") as Side[]) {
  const began = performance.now();
  const say = (line: string): void => console.log(`${side} ${((performance.now() - began) / 1_000).toFixed(1).padStart(6)} s  ${line}`);
  say(`seed ${seed}, ${payers} payers, ${workers} workers, ${kills} kills in ${seconds} s, ${values.rpc ? "reads the chain" : "without the chain's word"}`);
  const { violations, ...report } = await runChaos({ side, seconds, jobs: 1, kills, payers, workers, seed, rest, rpc: values.rpc, bundle, say });
  console.log(JSON.stringify({ side, seed, ...report }));
  for (const violation of violations.slice(0, 20)) console.log(`VIOLATION ${violation}`);
  say(violations.length === 0 ? "every transfer is one completed job, one open credit or one listed doubt" : `${violations.length} violations`);
  isGood &&= violations.length === 0;
}
remove?.();
process.exit(isGood ? 0 : 1);
