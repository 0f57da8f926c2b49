// The schema of the hub's SQLite. A hub migrates it before its first job.
import { TUNING } from "../tuning.ts";

/** A migration that rebuilds a table with another layout and the same columns. */
type TableRebuild = { table: string; sql: string };

/** After this new payments are beside each other, in the order of their arrival. By their random keys each was on a page of its own (docs/decisions/0015). */
const PAYMENTS_BY_ARRIVAL: TableRebuild = {
  table: "payments",
  sql: `
DROP TABLE IF EXISTS payments_by_key;
ALTER TABLE payments RENAME TO payments_by_key;
CREATE TABLE payments (
  key TEXT PRIMARY KEY NOT NULL, digest TEXT NOT NULL, binding TEXT NOT NULL, payer TEXT, asset TEXT NOT NULL DEFAULT '', amount TEXT NOT NULL,
  expires_at INTEGER NOT NULL, job_id TEXT NOT NULL, own_job_id TEXT, doubts INTEGER NOT NULL, lost_answer INTEGER NOT NULL DEFAULT 0, phase TEXT NOT NULL,
  kind TEXT NOT NULL, credit TEXT, streamed_at INTEGER, block INTEGER, updated_at INTEGER NOT NULL, rev INTEGER NOT NULL DEFAULT 1,
  copied_rev INTEGER NOT NULL DEFAULT 0, response TEXT, payload TEXT, requirements TEXT
);
INSERT INTO payments (key, digest, binding, payer, asset, amount, expires_at, job_id, own_job_id, doubts, lost_answer, phase, kind, credit, streamed_at, block, updated_at,
    rev, copied_rev, response, payload, requirements)
  SELECT key, digest, binding, payer, asset, amount, expires_at, job_id, own_job_id, doubts, lost_answer, phase, kind, credit, streamed_at, block, updated_at,
    rev, copied_rev, response, payload, requirements FROM payments_by_key;
DROP TABLE payments_by_key;
CREATE INDEX payments_job ON payments (job_id);
CREATE INDEX payments_done ON payments (updated_at) WHERE kind IN ('spent', 'void');
CREATE INDEX payments_uncopied ON payments (updated_at) WHERE copied_rev < rev;
CREATE INDEX payments_unresolved ON payments (updated_at) WHERE kind = 'unresolved';
CREATE INDEX payments_live ON payments (kind) WHERE kind NOT IN ('spent', 'void', 'unresolved');
CREATE INDEX payments_credit ON payments (payer) WHERE credit IS NOT NULL;
CREATE INDEX payments_streamed ON payments (streamed_at) WHERE streamed_at IS NOT NULL;
`,
};

const JOB_COLUMNS = `id, job_type, task_type, policy, privacy_class, user_id, payload, payload_bytes, created_at, rev, status, attempt,
  provider_pubkey, holders, snapshot, result, receipt, completed_at, ended_at, synced_rev, client, payer`;

/** The same for jobs (docs/decisions/0016). */
const JOBS_BY_ARRIVAL: TableRebuild = {
  table: "jobs",
  sql: `
DROP TABLE IF EXISTS jobs_by_id;
ALTER TABLE jobs RENAME TO jobs_by_id;
CREATE TABLE jobs (
  id TEXT PRIMARY KEY NOT NULL, job_type TEXT NOT NULL, task_type TEXT, policy TEXT NOT NULL, privacy_class TEXT NOT NULL, user_id TEXT NOT NULL,
  payload TEXT NOT NULL, payload_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL, rev INTEGER NOT NULL, status TEXT NOT NULL, attempt INTEGER NOT NULL,
  provider_pubkey TEXT, holders TEXT NOT NULL, snapshot TEXT, result TEXT, receipt TEXT, completed_at INTEGER, ended_at INTEGER,
  synced_rev INTEGER NOT NULL DEFAULT 0, client TEXT NOT NULL DEFAULT '', payer TEXT NOT NULL DEFAULT ''
);
INSERT INTO jobs (${JOB_COLUMNS}) SELECT ${JOB_COLUMNS} FROM jobs_by_id;
DROP TABLE jobs_by_id;
`,
};

/** The tables, one migration after the other: a hub whose schema is older makes up for those that it lacks. Migrations are added, never changed. */
const HUB_MIGRATIONS: readonly (string | TableRebuild)[] = [
  `
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, job_type TEXT NOT NULL, policy TEXT NOT NULL, privacy_class TEXT NOT NULL, user_id TEXT NOT NULL,
  payload TEXT NOT NULL, payload_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL,
  rev INTEGER NOT NULL, status TEXT NOT NULL, attempt INTEGER NOT NULL, provider_pubkey TEXT, holders TEXT NOT NULL,
  snapshot TEXT, result TEXT, receipt TEXT, completed_at INTEGER, ended_at INTEGER, synced_rev INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS idempotency (
  user_id TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, job_id TEXT NOT NULL, created_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idempotency_created ON idempotency (created_at);
CREATE TABLE IF NOT EXISTS keys (
  key TEXT PRIMARY KEY, authenticated_at INTEGER, last_seen INTEGER NOT NULL,
  strikes INTEGER NOT NULL DEFAULT 0, parks INTEGER NOT NULL DEFAULT 0, parked_until INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS keys_last_seen ON keys (last_seen);
`,
  "ALTER TABLE keys ADD COLUMN last_used INTEGER NOT NULL DEFAULT 0",
  `
CREATE TABLE IF NOT EXISTS payments (
  key TEXT PRIMARY KEY, digest TEXT NOT NULL, binding TEXT NOT NULL, payer TEXT, amount TEXT NOT NULL, expires_at INTEGER NOT NULL,
  job_id TEXT NOT NULL, own_job_id TEXT, doubts INTEGER NOT NULL, phase TEXT NOT NULL, kind TEXT NOT NULL, updated_at INTEGER NOT NULL,
  payload TEXT, requirements TEXT, response TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS payments_job ON payments (job_id);
CREATE INDEX IF NOT EXISTS payments_done ON payments (updated_at) WHERE kind IN ('spent', 'void');
ALTER TABLE payments ADD COLUMN asset TEXT NOT NULL DEFAULT '';
ALTER TABLE payments ADD COLUMN rev INTEGER NOT NULL DEFAULT 1;
ALTER TABLE payments ADD COLUMN copied_rev INTEGER NOT NULL DEFAULT 0;
CREATE INDEX payments_uncopied ON payments (updated_at) WHERE copied_rev < rev;
`,
  `
CREATE TABLE IF NOT EXISTS code_claims (id TEXT PRIMARY KEY, client TEXT NOT NULL, began_at INTEGER NOT NULL, failed INTEGER NOT NULL) WITHOUT ROWID;
DELETE FROM keys WHERE authenticated_at IS NULL AND strikes = 0 AND parks = 0;
`,
  "ALTER TABLE jobs ADD COLUMN task_type TEXT",
  `
ALTER TABLE keys ADD COLUMN completed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN users TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN failed_at INTEGER NOT NULL DEFAULT 0;
`,
  `
ALTER TABLE code_claims ADD COLUMN block TEXT NOT NULL DEFAULT '';
ALTER TABLE code_claims ADD COLUMN signed_by TEXT;
ALTER TABLE code_claims ADD COLUMN spared INTEGER NOT NULL DEFAULT 0;
`,
  "ALTER TABLE payments ADD COLUMN lost_answer INTEGER NOT NULL DEFAULT 0",
  `
ALTER TABLE jobs ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN payer TEXT NOT NULL DEFAULT '';
CREATE TABLE IF NOT EXISTS stored_bytes (name TEXT PRIMARY KEY, counts BLOB NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS stored_bytes_updated ON stored_bytes (updated_at);
`,
  // The keys of an earlier hub are kept for as long as it promised.
  `
ALTER TABLE keys ADD COLUMN has_completed INTEGER NOT NULL DEFAULT 0;
UPDATE keys SET has_completed = 1;
CREATE INDEX IF NOT EXISTS keys_new ON keys (last_seen) WHERE has_completed = 0;
CREATE INDEX IF NOT EXISTS code_claims_began ON code_claims (began_at);
`,
  "CREATE TABLE IF NOT EXISTS models (name TEXT PRIMARY KEY, left_at INTEGER) WITHOUT ROWID",
  `
ALTER TABLE payments ADD COLUMN credit TEXT;
ALTER TABLE payments ADD COLUMN streamed_at INTEGER;
`,
  `
CREATE TABLE IF NOT EXISTS payment_orders (id TEXT PRIMARY KEY, outcome TEXT NOT NULL, done_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS payment_orders_done ON payment_orders (done_at);
CREATE INDEX IF NOT EXISTS payments_unresolved ON payments (updated_at) WHERE kind = 'unresolved';
`,
  "ALTER TABLE payments ADD COLUMN block INTEGER",
  "CREATE INDEX IF NOT EXISTS keys_signed ON keys (last_seen) WHERE has_completed = 0 AND authenticated_at IS NOT NULL",
  `
CREATE INDEX IF NOT EXISTS payments_live ON payments (kind) WHERE kind NOT IN ('spent', 'void', 'unresolved');
CREATE INDEX IF NOT EXISTS payments_credit ON payments (payer) WHERE credit IS NOT NULL;
CREATE INDEX IF NOT EXISTS payments_streamed ON payments (streamed_at) WHERE streamed_at IS NOT NULL;
`,
  PAYMENTS_BY_ARRIVAL,
  "CREATE TABLE IF NOT EXISTS chain_reads (key TEXT PRIMARY KEY, due INTEGER NOT NULL, readings INTEGER NOT NULL, found TEXT) WITHOUT ROWID",
  // A hub that starts reads a credit only if a live job has something of it. The credits of an earlier hub were whole, and had no text of their own. The second
  // condition on `kind` is there for the index payments_live.
  `
UPDATE payments SET credit = json_object('left', amount, 'lent', '0', 'since', updated_at, 'transaction', coalesce(phase ->> '$.transaction', ''))
  WHERE kind = 'credit' AND kind NOT IN ('spent', 'void', 'unresolved') AND credit IS NULL AND json_valid(phase);
DROP INDEX IF EXISTS payments_live;
CREATE INDEX IF NOT EXISTS payments_open ON payments (kind) WHERE kind NOT IN ('spent', 'void', 'unresolved', 'credit');
CREATE INDEX IF NOT EXISTS payments_lent ON payments (updated_at) WHERE credit IS NOT NULL AND instr(credit, '"lent":"0"') = 0;
`,
  JOBS_BY_ARRIVAL,
  "CREATE TABLE IF NOT EXISTS cancel_key (key BLOB NOT NULL)",
];

/** Runs the migrations that this hub has not run yet, in one transaction. The stores of the hub need their tables, so this comes before all of them. */
export function migrateHub(storage: DurableObjectStorage): void {
  storage.transactionSync(() => migrate(storage.sql));
}

function migrate(sql: SqlStorage): void {
  sql.exec("CREATE TABLE IF NOT EXISTS version (version INTEGER NOT NULL)");
  const done = sql.exec<{ version: number }>("SELECT version FROM version").toArray()[0]?.version ?? 0;
  // A hub that was rolled back leaves a newer version as it is, so that the newer hub does not migrate twice.
  if (Number.isInteger(done) && done >= HUB_MIGRATIONS.length) return;
  for (const migration of HUB_MIGRATIONS.slice(Number.isInteger(done) ? done : 0)) {
    if (typeof migration === "string") run(sql, migration);
    // All are one transaction, and the CPU time of a start is limited: to rebuild a larger table would be undone and begun again, without end. Only the
    // layout differs, so that table stays as it is.
    else if (!hasMore(sql, migration.table, TUNING.copiedRows)) run(sql, migration.sql);
  }
  sql.exec("DELETE FROM version");
  sql.exec("INSERT INTO version (version) VALUES (?)", HUB_MIGRATIONS.length);
}

function hasMore(sql: SqlStorage, table: string, than: number): boolean {
  return sql.exec(`SELECT 1 FROM ${table} LIMIT 1 OFFSET ?`, than).toArray().length > 0;
}

/** Runs a migration, one statement at a time. If the version was lost, one may run twice: that must not keep the hub from starting. */
function run(sql: SqlStorage, migration: string): void {
  for (const statement of migration.split(";").filter((text) => text.trim() !== "")) {
    try {
      sql.exec(statement);
    } catch (error) {
      if (!(error instanceof Error && /duplicate column name|already exists/.test(error.message))) throw error;
    }
  }
}
