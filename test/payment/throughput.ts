// Measures paid jobs per second: one coordinator, 24 workers, 60 payers, and a facilitator that takes a given time to settle.
// node test/payment/throughput.ts [jobs] [seconds to settle …], or npm run throughput --prefix test/payment
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort, startCoordinator } from "../../scripts/coordinator-process.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { listen, readText, sendJson } from "./loopback.ts";

const WORKERS = 24;
const PAYERS = 60;
/** So many requests are under way at once: enough that a worker never waits for the next one. */
const AT_ONCE = 2 * WORKERS;
const PAYEE = "0x00000000000000000000000000000000000000ee";

type Outcome = { status: number; isSettled: boolean; ms: number; at: number };

/** A facilitator that finds everything valid and settles after `ms`. */
async function startFacilitator(ms: number): Promise<{ url: string; most: () => number; close(): Promise<void> }> {
  let now = 0;
  let most = 0;
  const listener = await listen(0, async (request, response) => {
    const { paymentPayload } = JSON.parse(await readText(request)) as { paymentPayload: { payload: { authorization: { from: string } } } };
    const payer = paymentPayload.payload.authorization.from;
    if (request.url === "/verify") return sendJson(response, 200, { isValid: true, payer });
    now++;
    most = Math.max(most, now);
    await delay(ms);
    now--;
    sendJson(response, 200, { success: true, transaction: `0x${randomBytes(32).toString("hex")}`, network: "eip155:10143", payer });
  });
  return { url: listener.url, most: () => most, close: () => listener.close() };
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

async function measure(jobs: number, settleSeconds: number): Promise<boolean> {
  const facilitator = await startFacilitator(settleSeconds * 1_000);
  const stateDir = mkdtempSync(join(tmpdir(), "compute-router-throughput-"));
  const settings = { WORKER_AUTH: "optional", RATE_LIMITS: "off", EVM_PAY_TO: PAYEE, EVM_FACILITATOR: facilitator.url };
  const coordinator = await startCoordinator({ instance: "evm", port: await freePort(), stateDir, settings });
  const workers = await Promise.all(
    Array.from({ length: WORKERS }, async () => {
      const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
      await worker.connect();
      worker.serve();
      return worker;
    }),
  );
  try {
    const commit = (headers: Record<string, string>, wait: boolean): Promise<Response> =>
      fetch(`${coordinator.url}/v1/jobs/commit/cheap`, {
        method: "POST",
        headers: { ...headers, ...(wait && { Prefer: "wait=25" }) },
        body: JSON.stringify({ job_type: "TASK", user_id: "throughput", payload: { task_type: "summarize", input: "One. Two." } }),
      });
    const { accepts } = JSON.parse(Buffer.from((await commit({}, false)).headers.get("payment-required") ?? "", "base64").toString()) as { accepts: unknown[] };
    const failures = new Map<string, number>();
    const outcomes: Outcome[] = [];
    let next = 0;
    const began = performance.now();
    const client = async (): Promise<void> => {
      while (next < jobs) {
        const payer = 1 + (next++ % PAYERS);
        const start = performance.now();
        const response = await commit({ "X-PAYMENT": payment(accepts[0], payer) }, true);
        const body = (await response.json()) as { error?: string; job?: { status: string; result: { error?: string } | null } };
        const status = body.job?.status ?? `${response.status} ${body.error}`;
        if (status !== "completed") {
          const name = `${status} ${body.job?.result?.error ?? ""}`;
          failures.set(name, (failures.get(name) ?? 0) + 1);
        }
        outcomes.push({
          status: response.status,
          isSettled: response.headers.has("payment-response"),
          ms: performance.now() - start,
          at: performance.now() - began,
        });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, client));
    const seconds = (performance.now() - began) / 1_000;
    const times = outcomes.map(({ ms }) => ms).toSorted((a, b) => a - b);
    const at = (share: number): string => `${Math.round(times[Math.floor(share * (times.length - 1))] ?? 0)} ms`;
    // A worker is kept while its payment is settled, so one worker does at most one job in that time.
    const most = WORKERS / settleSeconds;
    const rate = jobs / seconds;
    const unsettled = outcomes.filter(({ status, isSettled }) => status === 201 && !isSettled).length;
    console.log(
      `settle ${settleSeconds} s: ${rate.toFixed(1)} jobs/s of ${most.toFixed(1)} (${Math.round((100 * rate) / most)} %), p50 ${at(0.5)}, p99 ${at(0.99)}, ` +
        `${facilitator.most()} settlements at once, ${unsettled} answers of 201 without PAYMENT-RESPONSE, not completed: ${JSON.stringify(Object.fromEntries(failures))}`,
    );
    return failures.size === 0;
  } finally {
    for (const worker of workers) worker.close();
    await coordinator.stop();
    await facilitator.close();
    rmSync(stateDir, { recursive: true, force: true });
  }
}

const [jobs = 240, ...times] = process.argv.slice(2).map(Number);
let isGood = true;
for (const seconds of times.length === 0 ? [0.1, 1, 2] : times) isGood = (await measure(jobs, seconds)) && isGood;
process.exit(isGood ? 0 : 1);
