// Compares the chain with the ledger: each transfer to the payee is exactly one completed job, one open credit or one listed doubt [PY9].
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual, promisify } from "node:util";
import { ROOT } from "../../../scripts/coordinator-process.ts";
import { CLI } from "../../support/cli.ts";
import { until } from "../../support/until.ts";
import type { Bench } from "./bench.ts";

/** Each look reads the whole chain and a database. */
const POLL_MS = 150;
/** The hub writes what has changed to D1 within about 2 s. */
const SETTLE_DOWN_MS = 15_000;
/** Where the state folder has it. */
const D1 = ["v3", "d1", "miniflare-D1DatabaseObject"];
/** Whoever waits longer could as well start another coordinator. */
const REST_MS = 3_000;

/** One transfer to the payee by a signed payment. `key` is that of its row in the ledger [PY6]. */
export type Received = { key: string; transaction: string; amount: bigint };

/** What the transfers were, by number. `assumed`: jobs that ran on a settlement without a transfer, which only a lost answer allows [PY8]. */
export type Books = { completed: number; credits: number; doubts: number; assumed: number };

type Row = {
  key: string;
  job_id: string;
  state: string;
  reason: string | null;
  payer: string;
  amount: string;
  settlement: string | null;
  balance: string | null;
  updated_at: number;
  job: string | null;
};

/** Waits until chain and ledger agree, and returns what the transfers were. @throws with every difference, if they do not agree after 15 s */
export async function balancedBooks(bench: Bench): Promise<Books> {
  return await balanced(bench, () => true);
}

/** Waits until chain and ledger agree and the transfers are as expected: D1 gets each change a moment later. */
export async function expectBooks(bench: Bench, expected: Books): Promise<void> {
  assert.deepEqual(await balanced(bench, (books) => isDeepStrictEqual(books, expected)), expected);
}

async function balanced(bench: Bench, isFinal: (books: Books) => boolean): Promise<Books> {
  const deadline = Date.now() + SETTLE_DOWN_MS;
  for (;;) {
    const { books, faults } = compare(await bench.received(), rowsOf(bench.state));
    const isLate = Date.now() > deadline;
    if (faults.length === 0 && (isLate || isFinal(books))) return books;
    if (isLate) throw new Error(`chain and ledger differ:\n${faults.join("\n")}`);
    await delay(POLL_MS);
  }
}

/** True once the hub has no job that waits or runs, and no payment under way or in doubt; false if that is not so after a moment. */
export async function isAtRest({ state, side }: Bench): Promise<boolean> {
  const open = "SELECT id FROM jobs WHERE ended_at IS NULL UNION ALL SELECT key FROM payments WHERE kind NOT IN ('spent', 'credit', 'void')";
  for (const deadline = Date.now() + REST_MS; ;) {
    if (read(join(state, "v3", "do", `compute-router-${side}-WorkerHub`), open)?.length === 0) return true;
    if (Date.now() > deadline) return false;
    await delay(POLL_MS);
  }
}

/** The payments as D1 has them, each with the status of its job. */
export function rowsOf(state: string): Row[] {
  const question = "SELECT p.*, j.status AS job FROM payments p LEFT JOIN jobs j ON j.id = p.job_id";
  return (read(join(state, ...D1), question) ?? []) as Row[];
}

function fileOf(folder: string): string | null {
  const name = readdirSync(folder).find((known) => known.endsWith(".sqlite") && known !== "metadata.sqlite");
  return name === undefined ? null : join(folder, name);
}

/** Asks the database of a folder; null if there is none yet. */
function read(folder: string, question: string): unknown[] | null {
  const file = fileOf(folder);
  if (file === null) return null;
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return database.prepare(question).all();
  } finally {
    database.close();
  }
}

/** What the transfers were, and every difference between them and the rows. */
export function compare(transfers: readonly Received[], rows: readonly Row[]): { books: Books; faults: string[] } {
  const books: Books = { completed: 0, credits: 0, doubts: 0, assumed: 0 };
  const faults: string[] = [];
  const byKey = new Map(rows.map((row) => [row.key, row]));
  /** Of each payer: what has moved less what it has bought and what is left of it. */
  const open = new Map<string, bigint>();
  const count = (payer: string, amount: bigint) => open.set(payer, (open.get(payer) ?? 0n) + amount);
  const moved = new Map(transfers.map((transfer) => [transfer.key, transfer]));
  const transactions = new Set(transfers.map(({ transaction }) => transaction));
  if (moved.size !== transfers.length) faults.push("two transfers by one payment");

  for (const { key, transaction, amount } of transfers) {
    const row = byKey.get(key);
    if (row === undefined) {
      faults.push(`transfer ${transaction} of ${amount} has no row`);
      continue;
    }
    if (BigInt(row.amount) !== amount) faults.push(`transfer ${transaction} is of ${amount}, its row says ${row.amount}`);
    if (row.settlement && !transactions.has(row.settlement)) faults.push(`transfer ${transaction} is ${row.settlement} in its row`);
    if (row.state === "unknown" || row.state === "unresolved") books.doubts++;
    else if (row.state === "credit") books.credits++;
    else if (row.state === "spent") books.completed++;
    else faults.push(`transfer ${transaction} belongs to a payment that is ${row.state} (${row.reason})`);
    if (row.state === "credit" || row.state === "spent") count(row.payer, amount);
  }
  for (const { key, state, payer, amount, settlement, balance, job, reason } of rows) {
    if (state === "held" || state === "settling" || state === "settled") faults.push(`payment ${key} is still ${state}`);
    if (settlement !== null && !moved.has(key)) {
      if (settlement !== "") faults.push(`payment ${key} names ${settlement}, and nothing has moved`);
      books.assumed++;
      count(payer, BigInt(amount));
    }
    if (balance !== null) count(payer, -BigInt(balance));
    if (job !== "completed") continue;
    if (state === "spent" || (state === "void" && reason === "paid_by_credit")) count(payer, -BigInt(amount));
    else faults.push(`payment ${key} is ${state} (${reason}), and its job is completed`);
  }
  for (const [payer, amount] of open) if (amount !== 0n) faults.push(`${amount} of ${payer} is neither spent on a job nor in the balance`);
  return { books, faults };
}

/**
 * Writes what `compute-router payments credit|void` writes for the payment of a job, once it is unresolved, without the 3 s of CPU of each call of wrangler.
 */
export async function orderInDatabase({ state }: Bench, id: string, verb: "credit" | "void"): Promise<void> {
  const { key } = await until("doubt", () => rowsOf(state).find((row) => row.job_id === id && row.state === "unresolved"));
  const database = new DatabaseSync(fileOf(join(state, ...D1)) ?? "", { timeout: 5_000 });
  try {
    const insert = database.prepare("INSERT INTO payment_orders (id, payment_key, verb, reason, created_at) VALUES (?, ?, ?, 'seen on the chain', ?)");
    insert.run(randomUUID(), key, verb, Date.now());
  } finally {
    database.close();
  }
}

/** Runs `compute-router payments credit|void` for the payment of a job. */
export async function order({ state, side }: Bench, id: string, verb: "credit" | "void"): Promise<void> {
  const args = ["payments", verb, id, "--reason", "seen on the chain", "--config", `wrangler.${side}.toml`, "--state", state];
  await promisify(execFile)(process.execPath, [CLI, ...args], { cwd: ROOT });
}
