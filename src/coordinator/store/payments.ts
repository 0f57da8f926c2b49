import type { Payment } from "../dispatch/index.ts";

/** A row of the ledger on its way to D1. */
export type PaymentCopy = Payment & { rev: number; updatedAt: number };

const COLUMNS = ["key", "rev", "state", "reason", "job_id", "payer", "asset", "amount", "settlement", "updated_at"] as const;

const COPY = `INSERT INTO payments (${COLUMNS.join(", ")}) SELECT ${COLUMNS.map((column) => `value ->> '$.${column}'`).join(", ")} FROM json_each(?) WHERE true
  ON CONFLICT (key) DO UPDATE SET ${COLUMNS.slice(1)
    .map((column) => `${column} = excluded.${column}`)
    .join(", ")} WHERE excluded.rev > payments.rev`;

/** The statement that brings these rows into D1. Replayed or late it changes nothing. */
export function copyStatement(db: D1Database, rows: readonly PaymentCopy[]): D1PreparedStatement {
  return db.prepare(COPY).bind(JSON.stringify(rows.map(recordOf)));
}

function recordOf({ key, rev, phase, jobId, payer, asset, amount, updatedAt }: PaymentCopy): Record<(typeof COLUMNS)[number], string | number | null> {
  const reason = phase.kind === "void" ? phase.reason : null;
  const settlement = "transaction" in phase ? phase.transaction : null;
  return { key, rev, state: phase.kind, reason, job_id: jobId, payer, asset, amount, settlement, updated_at: updatedAt };
}
