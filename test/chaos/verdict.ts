// The verdict of npm run test:chaos: compares every acknowledgement with what is stored at the end.
import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { hashes, verify } from "@noble/ed25519";
import { sha512 } from "@noble/hashes/sha2.js";
import type { History } from "./history.ts";
import type { Subject } from "./subject.ts";

hashes.sha512 = sha512;

const POLL_MS = 100;

type Row = { id: string; status: string; result: string | null; marker: string; signature: string | null; key: string | null };

/** What came of all jobs. */
export type Verdict = { violations: string[]; completed: number; failures: Map<string, number>; ranAfter503: number; restMs: number };

/** Waits until everything that was acknowledged has ended, `mostMs` at most, then compares every acknowledgement with what is stored. */
export async function judge(subject: Subject, history: History, mostMs: number): Promise<Verdict> {
  const violations = [...history.violations];
  const began = performance.now();
  const ends = await untilEnded(subject, [...history.accepted.keys(), ...history.refused], mostMs, violations);
  await untilDrained(subject, violations);
  const restMs = performance.now() - began;

  const rows = readRows(subject.databases().d1);
  const failures = new Map<string, number>();
  let completed = 0;
  for (const [id, json] of ends) {
    const before = history.shown.get(id);
    if (before !== undefined && before !== json) violations.push(`job ${id}: was shown as ${before.slice(0, 200)} and is ${json.slice(0, 200)}`);
    const job = JSON.parse(json) as Ended;
    const row = rows.get(id);
    if (row === undefined) violations.push(`job ${id}: ended and is not in D1`);
    else if (row.status !== job.status || row.signature !== (job.receipt?.signature ?? null)) violations.push(`job ${id}: D1 and HTTP differ`);
    if (job.status === "completed") {
      completed++;
      violations.push(...receiptFaults(id, job));
    } else failures.set(String(job.result?.["error"]), (failures.get(String(job.result?.["error"])) ?? 0) + 1);
  }
  violations.push(...answerFaults(history, rows), ...identityFaults(history, rows), ...pairingFaults(subject.databases().d1, history));
  const ranAfter503 = [...rows.values()].filter(({ id, marker }) => !history.accepted.has(id) && history.unavailable.has(marker)).length;
  return { violations, completed, failures, ranAfter503, restMs };
}

type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: string | null; signature: string };
type Ended = { status: string; result: Record<string, unknown> | null; receipt: Receipt | null };

/** The last answer of each job, once it is an end. */
async function untilEnded(subject: Subject, ids: readonly string[], mostMs: number, violations: string[]): Promise<Map<string, string>> {
  const ends = new Map<string, string>();
  const deadline = performance.now() + mostMs;
  let left = [...ids];
  while (left.length > 0) {
    const open: string[] = [];
    for (let at = 0; at < left.length; at += 16) {
      await Promise.all(
        left.slice(at, at + 16).map(async (id) => {
          const answer = await fetch(`${subject.url}/v1/jobs/${id}`).catch(() => null);
          const text = await answer?.text();
          const status = answer?.status === 200 ? (JSON.parse(text ?? "") as Ended).status : "";
          if (status === "completed" || status === "failed") ends.set(id, text ?? "");
          else if (answer?.status === 404) violations.push(`job ${id}: lost (404)`);
          else open.push(id);
        }),
      );
    }
    left = open;
    if (performance.now() > deadline) {
      for (const id of left) violations.push(`job ${id}: was acknowledged and has not ended after ${mostMs / 1_000} s`);
      break;
    }
    if (left.length > 0) await delay(POLL_MS);
  }
  return ends;
}

/** The hub hands on every job: its journal is empty at rest. */
async function untilDrained(subject: Subject, violations: string[]): Promise<void> {
  const deadline = performance.now() + 45_000;
  const count = () => query<{ n: number }>(subject.databases().hub, "SELECT count(*) AS n FROM jobs")[0]?.n ?? 0;
  while (count() > 0) {
    if (performance.now() > deadline) {
      violations.push(`${count()} jobs have not left the hub's journal`);
      return;
    }
    await delay(POLL_MS);
  }
}

/** [RC1, RC2] by the letter, with noble's strict rules, and with nothing of our own code. */
function receiptFaults(id: string, { receipt, result }: Ended): string[] {
  if (receipt === null) return [`job ${id}: completed without a receipt`];
  const { job_id, provider_pubkey, output_hash, completed_at, signature } = receipt;
  const signed = JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref: null });
  const isSigned = verify(Buffer.from(signature, "base64"), Buffer.from(signed), Buffer.from(provider_pubkey, "hex"), { zip215: false });
  const hash = `sha256:${createHash("sha256").update(JSON.stringify(result)).digest("hex")}`;
  if (job_id !== id || output_hash !== hash || !isSigned) return [`job ${id}: its receipt does not verify`];
  return [];
}

/** Accepted means stored: that worker's result, and no other. */
function answerFaults(history: History, rows: ReadonlyMap<string, Row>): string[] {
  const faults: string[] = [];
  const winners = new Map<string, string>();
  for (const { job, worker, status } of history.answers) {
    if (status !== "accepted" && status !== "duplicate") continue;
    const row = rows.get(job);
    const other = winners.get(job);
    if (other !== undefined && other !== worker) faults.push(`job ${job}: results of two workers were accepted`);
    winners.set(job, worker);
    if (row?.status !== "completed") faults.push(`job ${job}: a result was ${status} and it is ${row?.status ?? "not stored"}`);
    else if (row.key !== worker || !history.signatures(job, worker).has(row.signature ?? ""))
      faults.push(`job ${job}: another result than the accepted one is stored`);
  }
  for (const id of history.refused) {
    if (history.assigned.has(id)) faults.push(`job ${id}: was refused and run`);
    if (rows.get(id)?.status !== "failed") faults.push(`job ${id}: was refused and is ${rows.get(id)?.status ?? "not stored"}`);
  }
  return faults;
}

/** One id per idempotency key, and at most one job per request. */
function identityFaults(history: History, rows: ReadonlyMap<string, Row>): string[] {
  const faults: string[] = [];
  for (const [key, ids] of history.byKey) if (ids.size > 1) faults.push(`idempotency key ${key}: ${ids.size} ids`);
  const jobs = Map.groupBy(rows.values(), ({ marker }) => marker);
  for (const [marker, found] of jobs) {
    // No worker started these.
    if (marker === "") continue;
    const commit = history.commits.get(marker);
    // A refusal is stored as a job too, and is no answer to keep for the key.
    const real = found.filter(({ status, result }) => !(status === "failed" && result === '{"error":"no_trusted_worker"}'));
    const most = commit === undefined ? 0 : commit.key === null ? commit.requests : 1;
    if (real.length > most) faults.push(`commit ${marker}: ${commit?.requests ?? 0} requests made ${real.length} jobs`);
  }
  return faults;
}

function pairingFaults(d1: string, history: History): string[] {
  const faults: string[] = [];
  const winners = new Map<string, string>();
  const rows = query<{ code: string; user: string; worker: string | null; claimed: number }>(
    d1,
    "SELECT pairing_code AS code, user_id AS user, provider_pubkey AS worker, claimed FROM pairings",
  );
  const stored = new Map(rows.map((row) => [`${row.user} ${row.code}`, row]));
  for (const { code, user, worker } of history.claims) {
    const name = `${user} ${code}`;
    if (winners.has(name)) faults.push(`pairing code ${code}: claimed twice`);
    winners.set(name, worker);
    const row = stored.get(name);
    if (row?.claimed !== 1 || row.worker !== worker) faults.push(`pairing code ${code}: its claim is not stored`);
  }
  return faults;
}

function readRows(d1: string): Map<string, Row> {
  const rows = query<Row>(
    d1,
    // A job that no worker started has no payload any more [LM3].
    `SELECT j.id, j.status, j.result, CASE WHEN j.payload = '' THEN '' ELSE coalesce(j.payload ->> '$.input', j.payload ->> '$.prompt', '') END AS marker,
       r.signature, r.provider_pubkey AS key
     FROM jobs j LEFT JOIN receipts r ON r.job_id = j.id`,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

function query<Row>(file: string, sql: string): Row[] {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  try {
    return database.prepare(sql).all() as Row[];
  } finally {
    database.close();
  }
}
