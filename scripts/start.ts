// npm start: starts both coordinators and a desktop worker on each, and runs one job of every kind. It stays up until Ctrl-C; `-- --once` ends it after the
// jobs.
import { resolve } from "node:path";
import { ComputeRouter } from "../src/sdk/index.ts";
import { fitted, terminalColumns } from "../src/worker/node/fitted.ts";
import { afterJobs, assertPortsFree, bringUp, failuresOf } from "./bring-up.ts";
import { type Coordinator, ROOT } from "./coordinator-process.ts";
import { banner, FIRST_JOBS, runFirstJob } from "./first-jobs.ts";
import { readStartOptions, runSession, type Session, type StartOptions } from "./session.ts";

const USAGE = "npm start -- [--once] [--evm-port N] [--svm-port N] [--state DIR]";
const SETTINGS = { TESTNET_MODE: "true" };

/** True if every kind of job had a verified result on every instance. */
async function runJobs(coordinators: readonly Coordinator[], { signal, elapsed }: Session): Promise<boolean> {
  const columns = terminalColumns();
  let good = 0;
  for (const { instance, url } of coordinators) {
    console.log(`\n${instance}`);
    const router = new ComputeRouter({ baseUrl: url, pollInterval: 100 });
    for (const job of FIRST_JOBS) {
      const { ok, lines } = await runFirstJob(router, job, columns - 2, signal);
      if (ok) good++;
      for (const line of lines) console.log(`  ${line}`);
    }
  }
  const all = coordinators.length * FIRST_JOBS.length;
  const summary = `${good} of ${all} jobs done and verified, ${(elapsed() / 1000).toFixed(1)} s after the start. All jobs are free: the prices above are quotes.`;
  console.log(`\n${fitted(summary, columns).join("\n")}`);
  return good === all;
}

async function run({ once, ports, state = ".state" }: StartOptions, session: Session): Promise<number> {
  const place = { command: "npm start", ports, stateDir: resolve(ROOT, state) };
  await assertPortsFree(place);
  const { coordinators, llm } = await bringUp(session, { ...place, settings: { evm: SETTINGS, svm: SETTINGS } });
  const good = await runJobs(coordinators, session);
  return await afterJobs(session, { once, good, banner: banner(coordinators, llm, state, terminalColumns()), failures: failuresOf(coordinators) });
}

async function main(): Promise<number> {
  const options = readStartOptions(process.argv.slice(2), USAGE);
  if (typeof options !== "string") return await runSession((session) => run(options, session));
  console.error(options);
  return options === USAGE ? 0 : 2;
}

process.exit(await main());
