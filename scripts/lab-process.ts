import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { npmCi } from "../src/worker/runtimes/npm-ci.ts";
import { startChild } from "./child.ts";
import { StartFailure } from "./coordinator-process.ts";
import { type Instance, ROOT } from "./instance.ts";
import type { Session } from "./session.ts";

const FOLDER = join(ROOT, "test", "payment");
const INSTALL_COMMAND = "npm ci --prefix test/payment";
const READY_TIMEOUT_MS = 60_000;
const ANSWER_TIMEOUT_MS = 30_000;

const both = <T extends z.ZodType>(value: T) => z.object({ evm: value, svm: value });
/** What `test/payment/lab.ts` prints when it is ready, as far as it is needed here. */
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

/** Two chains, a facilitator and payers with money, in a process of their own. */
export type LabProcess = z.infer<typeof Description> & {
  /** Resolves when it ended without being told to. */
  readonly failed: Promise<string>;
  /** Signs a payment for the header `PAYMENT-REQUIRED` of a 402, as the first payer of its chain. */
  sign(header: string): Promise<{ payer: string; value: string }>;
  /** In millionths of a dollar. */
  balanceOf(owner: string): Promise<bigint>;
  payer(instance: Instance): string;
};

/** Installs the lab's packages when they are missing or others than the lockfile's. @throws {StartFailure} */
export async function installLab({ say, signal }: Session): Promise<void> {
  if (isInstalled()) return;
  say("", "installing the payment lab: two chains, x402 and wallets (about 200 MB)");
  const failure = await npmCi(FOLDER, INSTALL_COMMAND, (line) => say("", line), signal);
  if (failure !== undefined) throw new StartFailure(failure.message);
  say("", "the payment lab is installed");
}

/** Starts the lab on free ports; resolves when it is ready. @throws {StartFailure} */
export async function startLabProcess({ keep }: Session): Promise<LabProcess> {
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
  // npm writes its hidden lockfile last: without it the install did not finish.
  if (!existsSync(join(modules, ".package-lock.json"))) return false;
  const wanted = Object.entries(manifest(FOLDER)?.dependencies ?? {});
  // An alias is `npm:<name>@<version>`.
  return wanted.every(([name, version]) => manifest(join(modules, name))?.version === version.slice(version.lastIndexOf("@") + 1));
}

function manifest(folder: string): z.infer<typeof Manifest> | undefined {
  const file = join(folder, "package.json");
  return existsSync(file) ? Manifest.safeParse(JSON.parse(readFileSync(file, "utf8"))).data : undefined;
}
