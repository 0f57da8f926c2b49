// Paid jobs per second and their latency with 24 workers, over a facilitator that takes a given time to settle: of this coordinator, and of bare workerd with
// the same events, which is the limit of the platform on this machine. Both take turns.
// node test/payment/throughput.ts [seconds to settle …], or npm run throughput --prefix test/payment
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort, startCoordinator } from "../../scripts/coordinator-process.ts";
import { cpuOf, family } from "../bench/processes.ts";
import { startInWorkerd } from "../bench/systems.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { listen, readText, sendJson } from "./loopback.ts";

const WORKERS = 24;
const PAYERS = 60;
/** So many requests are under way at once: enough that a worker never waits for the next one. */
const AT_ONCE = 2 * WORKERS;
const PAYEE = "0x00000000000000000000000000000000000000ee";
/** Before the measurement, so that it sees a runtime that is warm and a queue that is full. */
const WARM_UP_MS = 4_000;
/** How long is measured, in settle times and at least. */
const ROUNDS = 8;
const LEAST_MS = 10_000;

type Outcome = { status: number; isSettled: boolean; name: string; ms: number; at: number };
type Facilitator = { url: string; most: () => number; settles: number[]; close(): Promise<void> };

/** A facilitator that finds everything valid and settles after `ms`. `settles` are the times that its calls took, ms. */
async function startFacilitator(ms: number): Promise<Facilitator> {
  let now = 0;
  let most = 0;
  const settles: number[] = [];
  const listener = await listen(0, async (request, response) => {
    const began = performance.now();
    const { paymentPayload } = JSON.parse(await readText(request)) as { paymentPayload: { payload: { authorization: { from: string } } } };
    const payer = paymentPayload.payload.authorization.from;
    if (request.url === "/verify") return sendJson(response, 200, { isValid: true, payer });
    most = Math.max(most, ++now);
    await delay(ms);
    now--;
    settles.push(performance.now() - began);
    sendJson(response, 200, { success: true, transaction: `0x${randomBytes(32).toString("hex")}`, network: "eip155:10143", payer });
  });
  return { url: listener.url, most: () => most, settles, close: () => listener.close() };
}

function payment(accepted: unknown, payer: number): string {
  const authorization = {
    from: `0x${payer.toString(16).padStart(40, "0")}`,
    to: PAYEE,
    value: "1000",
    validAfter: "0",
    validBefore: String(Math.floor(Date.now() / 1_000) + 300),
    nonce: `0x${randomBytes(32).toString("hex")}`,
  };
  const payload = { signature: `0x${randomBytes(64).toString("hex")}1b`, authorization };
  return Buffer.from(JSON.stringify({ x402Version: 2, accepted, payload })).toString("base64");
}

type System = { name: string; start(stateDir: string, settings: Record<string, string>): Promise<Server> };
type Server = { url: string; socketUrl: string; pids: readonly number[]; stop(): Promise<void> };

const OURS: System = {
  name: "this coordinator",
  async start(stateDir, settings) {
    const bundle = process.env.COORDINATOR_BUNDLE ?? null;
    const coordinator = await startCoordinator({ instance: "evm", port: await freePort(), stateDir, settings, serves: true, guardsFrames: false, bundle });
    return { url: coordinator.url, socketUrl: coordinator.socketUrl, pids: [coordinator.pid], stop: () => coordinator.stop() };
  },
};

const BARE: System = {
  name: "bare workerd",
  async start(stateDir, settings) {
    const { port, pids, stop } = await startInWorkerd("bare-paid", stateDir, null, settings);
    return { url: `http://127.0.0.1:${port}`, socketUrl: `ws://127.0.0.1:${port}/v1/worker`, pids, stop };
  },
};

/** One run of a system: its jobs per second, null if a job was not completed. */
async function measure(system: System, settleSeconds: number): Promise<number | null> {
  const facilitator = await startFacilitator(settleSeconds * 1_000);
  const folder = mkdtempSync(join(tmpdir(), "compute-router-throughput-"));
  const settings = { WORKER_AUTH: "optional", RATE_LIMITS: "off", EVM_PAY_TO: PAYEE, EVM_FACILITATOR: facilitator.url };
  const coordinator = await system.start(join(folder, "state"), settings);
  const workers = await Promise.all(
    Array.from({ length: WORKERS }, async () => {
      const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
      await worker.connect();
      worker.serve();
      return worker;
    }),
  );
  try {
    const commit = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${coordinator.url}/v1/jobs/commit/cheap`, {
        method: "POST",
        headers: { ...headers, Prefer: "wait=25" },
        body: JSON.stringify({ job_type: "TASK", user_id: "throughput", payload: { task_type: "summarize", input: "One. Two." } }),
      });
    const { accepts } = JSON.parse(Buffer.from((await commit({})).headers.get("payment-required") ?? "", "base64").toString()) as { accepts: unknown[] };
    const outcomes: Outcome[] = [];
    let isOver = false;
    let next = 0;
    const client = async (): Promise<void> => {
      while (!isOver) {
        const payer = 1 + (next++ % PAYERS);
        const start = performance.now();
        const response = await commit({ "X-PAYMENT": payment(accepts[0], payer) });
        const body = (await response.json()) as { error?: string; job?: { status: string; result: { error?: string } | null } };
        const at = performance.now();
        const name = body.job === undefined ? `${response.status} ${body.error}` : [body.job.status, body.job.result?.error].filter(Boolean).join(" ");
        outcomes.push({ status: response.status, isSettled: response.headers.has("payment-response"), name, ms: at - start, at });
      }
    };
    const clients = Promise.all(Array.from({ length: AT_ONCE }, client));
    await delay(Math.max(WARM_UP_MS, 2_000 * settleSeconds));
    const cpu = () => ({ coordinator: cpuOf(family(coordinator.pids)), driver: process.cpuUsage() });
    const before = cpu();
    facilitator.settles.length = 0;
    const began = performance.now();
    await delay(Math.max(LEAST_MS, ROUNDS * 1_000 * settleSeconds));
    const ended = performance.now();
    const after = cpu();
    const took = facilitator.settles.reduce((sum, ms) => sum + ms, 0) / facilitator.settles.length;
    isOver = true;
    await clients;

    const measured = outcomes.filter(({ at }) => at >= began && at < ended);
    const times = measured.map(({ ms }) => ms).toSorted((a, b) => a - b);
    const at = (share: number): string => `${Math.round(times[Math.floor(share * (times.length - 1))] ?? 0)} ms`;
    const rate = (measured.length * 1_000) / (ended - began);
    // A worker is kept while its payment is settled, so one worker does at most one job in that time.
    const most = WORKERS / settleSeconds;
    const busy = (after.coordinator - before.coordinator) * 1_000;
    const own = (after.driver.user + after.driver.system - before.driver.user - before.driver.system) / 1_000;
    const perJob = (ms: number): string => `${(ms / measured.length).toFixed(1)} ms`;
    const unsettled = outcomes.filter(({ status, isSettled }) => status === 201 && !isSettled).length;
    const failures = new Map<string, number>();
    for (const { name } of outcomes) if (name !== "completed") failures.set(name, (failures.get(name) ?? 0) + 1);
    console.log(
      `${system.name}, settle ${settleSeconds} s (${took.toFixed(0)} ms): ${rate.toFixed(1)} jobs/s of ${most.toFixed(1)} (${Math.round((100 * rate) / most)} %), p50 ${at(0.5)}, p99 ${at(0.99)}, ` +
        `${facilitator.most()} settlements at once, CPU per job: coordinator ${perJob(busy)} (${Math.round((100 * busy) / (ended - began))} % of a core), driver ${perJob(own)}, ` +
        `${unsettled} answers of 201 without PAYMENT-RESPONSE, not completed: ${JSON.stringify(Object.fromEntries(failures))}`,
    );
    return failures.size === 0 ? rate : null;
  } finally {
    for (const worker of workers) worker.close();
    await coordinator.stop();
    await facilitator.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const times = process.argv.slice(2).map(Number);
let isGood = true;
for (const seconds of times.length === 0 ? [0.1, 1, 2] : times) {
  const [bare, ours] = [await measure(BARE, seconds), await measure(OURS, seconds)];
  if (bare !== null && ours !== null) console.log(`settle ${seconds} s: this coordinator does ${(ours / bare).toFixed(2)} of the jobs of bare workerd`);
  isGood &&= bare !== null && ours !== null;
}
process.exit(isGood ? 0 : 1);
