// npm run start:paid: starts two local chains, a facilitator, both coordinators with payment gating, and a worker on each, and runs one paid job on each
// instance. It stays up until Ctrl-C; `-- --once` ends it after the jobs. It leaves nothing behind: the chains are in memory, the databases in a temporary
// folder.
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { ComputeRouter, type PaymentChallenge } from "../src/sdk/index.ts";
import { untrusted } from "../src/protocol/text.ts";
import { terminalColumns } from "../src/worker/node/fitted.ts";
import { npmCi } from "../src/worker/runtimes/embedded-install.ts";
import { afterJobs, assertPortsFree, bringUp, failuresOf } from "./bring-up.ts";
import { startChild } from "./child.ts";
import { type Coordinator, type Instance, ROOT, StartFailure } from "./coordinator-process.ts";
import { answeredBy, FIRST_JOBS, type FirstJob, paidBanner, resultWidth, shortened } from "./first-jobs.ts";
import { readStartOptions, runSession, type Session, type StartOptions } from "./session.ts";

const USAGE = "npm run start:paid -- [--once] [--evm-port N] [--svm-port N]";

async function run({ once, ports }: StartOptions, stateDir: string, session: Session): Promise<number> {
  const { say, signal, elapsed } = session;
  const place = { command: "npm run start:paid", ports, stateDir };
  await assertPortsFree(place);
  await installLab(session);
  const lab = await startLabProcess(session);
  say("", `chains and facilitator at ${lab.facilitator}`);
  // Signed workers and strict receipts are the default when jobs are paid.
  const settings = { evm: { TESTNET_MODE: "false", ...lab.settings.evm }, svm: { TESTNET_MODE: "false", ...lab.settings.svm } };
  const { coordinators, llm } = await bringUp(session, { ...place, settings });
  const columns = terminalColumns();
  const width = resultWidth(columns - 2);
  let good = 0;
  for (const [index, coordinator] of coordinators.entries()) {
    const job = FIRST_JOBS[index];
    if (job === undefined) continue;
    console.log(`\n${coordinator.instance}`);
    if (await runPaidJob(coordinator, lab, job, width, signal)) good++;
  }
  console.log(`\n${good} of ${coordinators.length} jobs paid, done and verified, ${(elapsed() / 1000).toFixed(1)} s after the start`);
  const isGood = good === coordinators.length;
  return await afterJobs(session, {
    once,
    good: isGood,
    banner: paidBanner(coordinators, llm, lab, columns),
    failures: [...failuresOf(coordinators), lab.failed],
  });
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

const FOLDER = join(ROOT, "test", "payment");
const INSTALL_COMMAND = "npm ci --prefix test/payment";
const READY_TIMEOUT_MS = 60_000;
const ANSWER_TIMEOUT_MS = 30_000;

const both = <T extends z.ZodType>(value: T) => z.object({ evm: value, svm: value });
/** The part of the ready line of `test/payment/lab.ts` that is used here. */
const Description = z.object({
  facilitator: z.string(),
  control: z.string(),
  evmRpc: z.string(),
  svmRpc: z.string(),
  payTo: both(z.string()),
  payers: both(z.array(z.object({ address: z.string() })).min(1)),
  settings: both(z.record(z.string(), z.string())),
});
const Manifest = z.object({ version: z.string().optional(), dependencies: z.record(z.string(), z.string()).optional() });
const Signed = z.object({ payer: z.string(), value: z.string() });
const Balance = z.object({ amount: z.string() });

/** Two chains, a facilitator and payers with money, in a separate process. */
type LabProcess = z.infer<typeof Description> & {
  /** Resolves when it ended unexpectedly. */
  readonly failed: Promise<string>;
  /** Signs a payment for the header `PAYMENT-REQUIRED` of a 402, as the first payer of its chain. */
  sign(header: string): Promise<{ payer: string; value: string }>;
  /** In millionths of a dollar. */
  balanceOf(owner: string): Promise<bigint>;
  payer(instance: Instance): string;
};

/** Installs the packages of the lab if they are missing or differ from the lockfile. @throws {StartFailure} */
async function installLab({ say, signal }: Session): Promise<void> {
  if (isInstalled()) return;
  say("", "installing the payment lab: two chains, x402 and wallets (about 200 MB)");
  const failure = await npmCi(FOLDER, INSTALL_COMMAND, (line) => say("", line), signal);
  if (failure !== undefined) throw new StartFailure(failure.message);
  say("", "the payment lab is installed");
}

/** Starts the lab on free ports and resolves when it is ready. @throws {StartFailure} */
async function startLabProcess({ keep }: Session): Promise<LabProcess> {
  const { promise: ready, resolve } = Promise.withResolvers<z.infer<typeof Description>>();
  const child = startChild([join(FOLDER, "lab.ts")], {
    cwd: ROOT,
    onLine: (line, stream) => {
      if (stream === "stdout" && line.startsWith("{")) resolve(Description.parse(JSON.parse(line)));
    },
  });
  keep(child);
  const failed = child.exited.then((exit) => `the payment lab ended (${exit})\n${child.lines.join("\n")}`);
  const late = delay(READY_TIMEOUT_MS, `the payment lab was not ready after ${READY_TIMEOUT_MS / 1000} s`, { ref: false });
  const description = await Promise.race([ready, failed, late]);
  if (typeof description === "string") throw new StartFailure(description);
  const { control, payers } = description;
  return {
    ...description,
    failed,
    sign: async (header) => Signed.parse(await ask(`${control}/pay`, { method: "POST", body: JSON.stringify({ header }) })),
    balanceOf: async (owner) => BigInt(Balance.parse(await ask(`${control}/balance?owner=${owner}`)).amount),
    payer: (instance) => payers[instance][0]?.address ?? "",
  };
}

async function ask(url: string, init: RequestInit = {}): Promise<unknown> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
  if (!response.ok) throw new Error(`the payment lab answers ${response.status}: ${await response.text()}`);
  return await response.json();
}

function isInstalled(): boolean {
  const modules = join(FOLDER, "node_modules");
  // npm writes its hidden lockfile last. Without that file the install did not finish.
  if (!existsSync(join(modules, ".package-lock.json"))) return false;
  const wanted = Object.entries(manifest(FOLDER)?.dependencies ?? {});
  // An alias is `npm:<name>@<version>`.
  return wanted.every(([name, version]) => manifest(join(modules, name))?.version === version.slice(version.lastIndexOf("@") + 1));
}

function manifest(folder: string): z.infer<typeof Manifest> | undefined {
  const file = join(folder, "package.json");
  return existsSync(file) ? Manifest.safeParse(JSON.parse(readFileSync(file, "utf8"))).data : undefined;
}

const DOLLAR = 1_000_000n;
/** The highest price of a first job. */
const MAX_PRICE = "$0.010";

/** Runs one paid job and prints each step. True if everything is correct: the receipt, its settlement, and the transfer on the chain. */
async function runPaidJob(coordinator: Coordinator, lab: LabProcess, { title, job }: FirstJob, width: number, signal: AbortSignal): Promise<boolean> {
  const { instance, url } = coordinator;
  const [payer, payee] = [lab.payer(instance), lab.payTo[instance]];
  const balances = () => Promise.all([lab.balanceOf(payer), lab.balanceOf(payee)]);
  const before = await balances();
  let asked = 0n;
  const router = new ComputeRouter({
    baseUrl: url,
    pollInterval: 100,
    maxPrice: MAX_PRICE,
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      if (response.status === 201)
        tell("201", `the job is accepted${response.headers.has("payment-response") ? ", its payment settled" : ", its payment held"}`);
      return response;
    },
    payment: async (challenge, { header }) => {
      const [offer] = challenge.accepts;
      asked = BigInt(offer?.amount ?? 0);
      tell("402", `${title} costs ${offer?.price ?? "?"}: ${terms(challenge)}`);
      const signed = await lab.sign(header ?? "");
      tell("pay", `${short(signed.payer)} signs it, and the commit is sent again with header PAYMENT-SIGNATURE`);
      return { "PAYMENT-SIGNATURE": signed.value };
    },
  });
  try {
    const result = await router.run(job, { signal });
    const by = answeredBy(result);
    const model = by === null ? "" : `   (${by})`;
    tell("result", `${shortened(result.output, width - LABEL - model.length)}${model}`);
    tell("receipt", result.verified ? `verified, signed by ${result.receipt?.provider_pubkey.slice(0, 8)}…` : "NOT verified");
    const transaction = result.receipt?.payment_ref ?? null;
    tell("settled", transaction === null ? "NOT settled" : `by transaction ${transaction}`);
    const after = await balances();
    tell("payer", `${short(payer)}  ${dollars(before[0])} → ${dollars(after[0])}`);
    tell("payee", `${short(payee)}  ${dollars(before[1])} → ${dollars(after[1])}`);
    const moved = asked > 0n && before[0] - after[0] === asked && after[1] - before[1] === asked;
    if (!moved) tell("", `NOT the price: ${dollars(asked)}`);
    return result.verified && transaction !== null && moved;
  } catch (error) {
    if (signal.aborted) throw error;
    tell("FAILED", error instanceof Error ? error.message : String(error));
    return false;
  }
}

const LABEL = 9;

function tell(label: string, text: string): void {
  console.log(`  ${label.padEnd(LABEL)}${untrusted(text)}`);
}

function terms({ accepts: [offer] }: PaymentChallenge): string {
  if (offer === undefined) return "no offer";
  return `${offer.amount} of ${offer.asset === undefined ? "the network's USDC" : short(offer.asset)} to ${short(offer.payTo)} on ${offer.network}`;
}

function short(address: string): string {
  return address.length <= 14 ? address : `${address.slice(0, 8)}…${address.slice(-4)}`;
}

function dollars(millionths: bigint): string {
  return `$${millionths / DOLLAR}.${String(millionths % DOLLAR).padStart(6, "0")}`;
}

process.exit(await main());
