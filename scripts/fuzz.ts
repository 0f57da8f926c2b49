// Sends hostile requests and frames to a real coordinator: `npm run fuzz -- [--runs N] [--seed S] [--instance evm|svm] [--gated]`. Every answer must be one
// that docs/openapi.json or docs/protocol.md documents, and none may be a 5xx. Exits 1 with the smallest request that fails.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import * as fc from "fast-check";
import { type Answer, type Ask, ask } from "../test/fuzz/ask.ts";
import { objection } from "../test/fuzz/contract.ts";
import { anyConversation, converse } from "../test/fuzz/frames.ts";
import { anyRequest } from "../test/fuzz/requests.ts";
import { PlainWorker } from "../test/support/plain-worker.ts";
import { freePort, startCoordinator } from "./coordinator-process.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5000" },
    seed: { type: "string" },
    instance: { type: "string", default: "evm" },
    gated: { type: "boolean", default: false },
  },
});
const runs = Number(values.runs);
const seed = Number(values.seed ?? Date.now() % 1_000_000);
const instance = values.instance === "svm" ? "svm" : "evm";
const stateDir = mkdtempSync(join(tmpdir(), "compute-router-fuzz-"));
const settings = {
  TESTNET_MODE: values.gated ? "false" : "true",
  WORKER_AUTH: "optional",
  RATE_LIMITS: "off",
  // As at a deployed coordinator, hostile hosts and origins reach the routes.
  PUBLIC_HOST: "",
  EVM_FACILITATOR: "http://127.0.0.1:9",
  SVM_FACILITATOR: "http://127.0.0.1:9",
};
/** No request may take longer. The longest `wait` here is 1 s; the rest is for a busy machine. */
const SLOW_MS = 6_000;
const statuses = new Map<number, number>();
const began = performance.now();

const coordinator = await startCoordinator({ instance, port: await freePort(), stateDir, settings });
const port = Number(new URL(coordinator.url).port);
try {
  const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
  await worker.connect();
  worker.serve();

  await checkProperty(fc.asyncProperty(anyRequest, checkRequest), runs);
  await checkProperty(
    fc.asyncProperty(anyConversation, async (sent) => {
      const problem = await converse(coordinator.socketUrl, sent);
      if (problem !== null) throw new Error(`${problem}\n${sent.map(String).join("\n")}`);
    }),
    Math.ceil(runs / 5),
  );

  const health: { workers_online: number } = JSON.parse((await ask(port, { method: "GET", path: "/v1/health", headers: {}, body: null })).body);
  if (worker.closed !== null || health.workers_online !== 1)
    throw new Error(`the correct worker was disconnected, or others stayed connected: ${JSON.stringify(health)}`);
  const seconds = (performance.now() - began) / 1_000;
  console.log(
    `statuses: ${[...statuses]
      .toSorted(([a], [b]) => a - b)
      .map(([status, count]) => `${status} × ${count}`)
      .join(", ")}`,
  );
  if (process.exitCode !== 1)
    console.log(`${runs} requests and ${Math.ceil(runs / 5)} sockets, seed ${seed}: every answer as documented, no 5xx, ${Math.round(seconds)} s`);
} finally {
  await coordinator.stop();
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 5 });
}

/** Sends a request, and polls the job if it created one. */
async function checkRequest(sent: Ask): Promise<void> {
  const asked = performance.now();
  const answer = await ask(port, sent);
  const ms = performance.now() - asked;
  if (ms > SLOW_MS) throw new Error(`${sent.method} ${sent.path} took ${Math.round(ms)} ms: ${JSON.stringify(sent.headers).slice(0, 300)}`);
  statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
  // With the gate the facilitator is unreachable on purpose.
  if (values.gated && answer.status === 503 && answer.body.includes("facilitator_unavailable")) return;
  check(sent, answer);
  if (answer.status !== 201) return;
  const { job_id }: { job_id?: string } = JSON.parse(answer.body);
  if (job_id === undefined) return;
  const poll = { method: "GET", path: `/v1/jobs/${job_id}?wait=1`, headers: {}, body: null };
  const polled = await ask(port, poll);
  if (polled.status !== 200) throw new Error(`${sent.method} ${sent.path} was 201, and its job is ${polled.status}`);
  check(poll, polled);
}

/** @throws with the request, if the answer is not documented */
function check(sent: Ask, answer: Answer): void {
  const problem = objection(sent, answer);
  if (problem === null) return;
  const { method, path, headers, body } = sent;
  throw new Error([problem, `${method} ${path}`, JSON.stringify(headers), Buffer.from(body ?? []).toString("utf8")].join("\n"));
}

async function checkProperty<T>(property: fc.IAsyncPropertyWithHooks<T>, numRuns: number): Promise<void> {
  const result = await fc.check(property, { numRuns, seed });
  if (!result.failed) return;
  console.log(
    `${result.errorInstance instanceof Error ? result.errorInstance.message : String(result.errorInstance)}\n\nagain with: npm run fuzz -- --seed ${seed}`,
  );
  process.exitCode = 1;
}
