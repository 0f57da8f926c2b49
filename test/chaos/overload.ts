/**
 * What becomes of a coordinator that is offered three times what its workers can do: it says so at once, keeps what it took, and is well again as
 * soon as the load is gone. `npm run overload -- [--seconds N] [--workers N] [--job-ms N] [--times N] [--users N]`; exits 1 if it is not so.
 */
import { generateKeyPairSync, sign } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { freePort } from "../../scripts/coordinator-process.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { WorkerSession } from "../../src/worker/session/index.ts";
import { copySources } from "../support/source-copy.ts";
import { Subject } from "./subject.ts";

const MEASURE_MS = 6_000;
const TICK_MS = 5;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "30" },
    workers: { type: "string", default: "20" },
    "job-ms": { type: "string", default: "100" },
    times: { type: "string", default: "3" },
    users: { type: "string", default: "2" },
  },
});
const seconds = Number(values.seconds);
const workerCount = Number(values.workers);
const jobMs = Number(values["job-ms"]);
const times = Number(values.times);
const userCount = Number(values.users);

type Answer = { status: number; error: string | null; retryAfter: string | null; id: string | null; ms: number };

/** When each job was committed and when its worker heard that its result is stored: the whole way. */
const committedAt = new Map<string, number>();
const storedAt = new Map<string, number>();

const copy = copySources("overload", ["test/chaos", "test/edge/tsconfig.json"]);
const stateDir = mkdtempSync(join(tmpdir(), "overload-state-"));
const subject = await Subject.launch(copy.folder, { port: await freePort(), stateDir, settings: { TESTNET_MODE: "true", RECEIPT_POLICY: "strict" } });
const workers = Array.from({ length: workerCount }, startWorker);
try {
  while ((await subject.online()) !== workerCount) await delay(50);
  process.exitCode = (await run()) ? 0 : 1;
} finally {
  for (const worker of workers) worker.stop();
  await subject.stop();
  copy.remove();
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 5 });
}

async function run(): Promise<boolean> {
  const capacity = await measureCapacity();
  console.log(`capacity: ${capacity.toFixed(0)} jobs/s (${workerCount} workers of ${jobMs} ms, commits with Prefer: wait)`);
  committedAt.clear();
  const offered = capacity * times;
  const answers = await offer(offered, seconds * 1_000);
  const stopped = performance.now();
  const recovery = await untilAccepted(stopped);
  const drained = await untilStored();

  const bound = ((userCount * LIMITS.queuedJobsPerUser + workerCount) / capacity) * 1_000;
  const taken = answers.filter(({ status }) => status === 201);
  const refused = answers.filter(({ status }) => status === 503);
  const late = refused.filter(({ retryAfter }) => retryAfter === null);
  const others = answers.filter(({ status }) => status !== 201 && status !== 503);
  const latencies = [...storedAt].flatMap(([id, at]) => (committedAt.has(id) ? [at - (committedAt.get(id) ?? at)] : []));
  const unstored = [...committedAt.keys()].filter((id) => !storedAt.has(id));
  const errors = Map.groupBy(refused, ({ error }) => error);
  console.log(
    `offered: ${offered.toFixed(0)} jobs/s for ${seconds} s by ${userCount} users, open loop (${(answers.length / seconds).toFixed(0)}/s came about)`,
  );
  console.log(`answers: 201 ${taken.length}, ${[...errors].map(([error, list]) => `503 ${error} ${list.length}`).join(", ")}, others ${others.length}`);
  console.log(`time to answer: 201 ${percentiles(taken.map(({ ms }) => ms))}; 503 ${percentiles(refused.map(({ ms }) => ms))}`);
  console.log(`accepted to stored: ${percentiles(latencies)}; full queues at capacity are ${Math.round(bound)} ms`);
  console.log(
    `work done under overload: ${((100 * taken.length) / (capacity * seconds)).toFixed(0)} % of capacity × time accepted; queue drained ${Math.round(drained - stopped)} ms after`,
  );
  console.log(`recovery: a commit is accepted ${Math.round(recovery)} ms after the load stops`);
  console.log(`not stored: ${unstored.length}; 503 without Retry-After: ${late.length}`);
  for (const answer of others.slice(0, 5)) console.log(`  ${JSON.stringify(answer)}`);
  return refused.length > 0 && late.length === 0 && others.length === 0 && unstored.length === 0;
}

/** Jobs a second while every worker always has one: twice as many seekers as workers, each with one job at a time. */
async function measureCapacity(): Promise<number> {
  const ends = performance.now() + MEASURE_MS;
  let done = 0;
  const seeker = async (_: unknown, index: number): Promise<void> => {
    while (performance.now() < ends) if ((await commit(`user-${index % userCount}`, "wait=20")).status === 201) done++;
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: 2 * workerCount }, seeker));
  return done / ((performance.now() - began) / 1_000);
}

/** Commits at this rate, whatever becomes of them. */
async function offer(perSecond: number, ms: number): Promise<Answer[]> {
  const began = performance.now();
  const pending: Promise<Answer>[] = [];
  while (performance.now() - began < ms) {
    const due = ((performance.now() - began) / 1_000) * perSecond;
    while (pending.length < due) pending.push(commit(`user-${pending.length % userCount}`));
    await delay(TICK_MS);
  }
  return Promise.all(pending);
}

/** Milliseconds from `since` to the first commit that is accepted, of a user whose queue was full. */
async function untilAccepted(since: number): Promise<number> {
  while ((await commit("user-0")).status !== 201) await delay(10);
  return performance.now() - since;
}

/** When the last accepted job was stored. */
async function untilStored(): Promise<number> {
  for (let before = -1; before !== storedAt.size;) {
    if ([...committedAt.keys()].every((id) => storedAt.has(id))) break;
    before = storedAt.size;
    await delay(1_000);
  }
  return performance.now();
}

async function commit(user: string, prefer?: string): Promise<Answer> {
  const body = JSON.stringify({ job_type: "TASK", user_id: user, payload: { task_type: "classify", input: "good" } });
  const headers = { "content-type": "application/json", ...(prefer !== undefined && { prefer }) };
  const began = performance.now();
  try {
    const response = await fetch(`${subject.url}/v1/jobs/commit/cheap`, { method: "POST", body, headers });
    const { job_id: id = null, error = null } = (await response.json()) as { job_id?: string; error?: string };
    if (id !== null) committedAt.set(id, began);
    return { status: response.status, error, id, retryAfter: response.headers.get("retry-after"), ms: performance.now() - began };
  } catch (cause) {
    return { status: 0, error: String(cause), id: null, retryAfter: null, ms: performance.now() - began };
  }
}

/** A worker that takes so long for a job, and little else: its signatures are the platform's. */
function startWorker(): WorkerSession {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const session = new WorkerSession({
    url: `${subject.url.replace("http", "ws")}/`,
    WebSocket,
    signer: {
      publicKey: publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex"),
      sign: (text) => sign(null, Buffer.from(text), privateKey).toString("base64"),
    },
    profile: { providerType: "MOBILE", capabilities: ["TASK"], models: [] },
    execute: async () => {
      await delay(jobMs);
      return { ok: true, output: { sentiment: "positive", confidence: 1 }, tokens: null };
    },
    onNote: (note) => {
      if (note.type === "job_acknowledged" && note.status === "accepted") storedAt.set(note.job_id, performance.now());
    },
  });
  session.start();
  return session;
}

function percentiles(list: readonly number[]): string {
  if (list.length === 0) return "none";
  const sorted = list.toSorted((a, b) => a - b);
  const at = (share: number) => `${Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0)} ms`;
  return `${at(0.5)} (median), ${at(0.99)} (99 %), ${at(1)} (most)`;
}
