// npm run start:paid: two local chains, a facilitator, both coordinators with the gate closed, a worker on each, and one paid job on each instance;
// then it stays up until Ctrl-C. `-- --once` ends after the jobs. Nothing of it outlives it: the chains are in memory, the databases in a temporary folder.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { paidBanner } from "./banner.ts";
import { assertPortsFree, bringUp, whileUp } from "./bring-up.ts";
import { StartFailure } from "./coordinator-process.ts";
import { FIRST_JOBS } from "./first-jobs.ts";
import { installLab, startLabProcess } from "./lab-process.ts";
import { runPaidJob } from "./paid-job.ts";
import { runSession, type Session } from "./session.ts";
import { readStartOptions, type StartOptions } from "./start-options.ts";

const USAGE = "npm run start:paid -- [--once] [--evm-port N] [--svm-port N]";
/** Results are cut to the terminal's width, but not shorter than this. */
const LEAST_WIDTH = 140;

async function run({ once, ports }: StartOptions, stateDir: string, session: Session): Promise<number> {
  const { say, signal, elapsed } = session;
  const place = { command: "npm run start:paid", ports, stateDir };
  await assertPortsFree(place);
  await installLab(session);
  const lab = await startLabProcess(session);
  say("", `chains and facilitator at ${lab.facilitator}`);
  // Nothing lax: signed workers and strict receipts are the default where jobs are paid.
  const settings = { evm: { TESTNET_MODE: "false", ...lab.settings.evm }, svm: { TESTNET_MODE: "false", ...lab.settings.svm } };
  const { coordinators, llm } = await bringUp(session, { ...place, settings });
  const width = Math.max(process.stdout.columns ?? 0, LEAST_WIDTH) - 2;
  let good = 0;
  for (const [index, coordinator] of coordinators.entries()) {
    const job = FIRST_JOBS[index];
    if (job === undefined) continue;
    console.log(`\n${coordinator.instance}`);
    if (await runPaidJob(coordinator, lab, job, width, signal)) good++;
  }
  console.log(`\n${good} of ${coordinators.length} jobs paid, done and verified, ${(elapsed() / 1000).toFixed(1)} s after the start`);
  if (once) return good === coordinators.length ? 0 : 1;
  console.log(paidBanner(coordinators, llm, lab));
  session.isUp();
  return await Promise.race([
    whileUp(coordinators),
    lab.failed.then((problem): never => {
      throw new StartFailure(problem);
    }),
  ]);
}

async function main(): Promise<number> {
  const options = readStartOptions(process.argv.slice(2), USAGE);
  if (typeof options === "string") {
    console.error(options);
    return options === USAGE ? 0 : 2;
  }
  const stateDir = await mkdtemp(join(tmpdir(), "compute-router-paid-"));
  try {
    return await runSession((session) => run(options, stateDir, session));
  } finally {
    await rm(stateDir, { recursive: true, force: true }).catch(() => {});
  }
}

process.exit(await main());
