import { sql } from "drizzle-orm";
import { index, integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Jobs, one row each from commit to retention. Times in ms since the epoch. The hub is the only writer [ARCHITECTURE "Where truth lives"]. */
export const jobs = sqliteTable(
  "jobs",
  {
    id: text("id").primaryKey(),
    jobType: text("job_type", { enum: ["LLM_INFER", "TASK"] }).notNull(),
    policy: text("policy", { enum: ["FAST", "CHEAP"] }).notNull(),
    privacyClass: text("privacy_class", { enum: ["PUBLIC", "PRIVATE"] }).notNull(),
    userId: text("user_id").notNull(),
    /** JSON text as sent to the worker; null once retention has emptied it. */
    payload: text("payload"),
    status: text("status", { enum: ["pending", "assigned", "running", "completed", "failed"] }).notNull(),
    /** Grows with every change; a replayed or late write with a lower one changes nothing. */
    rev: integer("rev").notNull(),
    attempt: integer("attempt").notNull(),
    /** JSON text of the object that REST returns; null until the end, and once retention has emptied it. */
    result: text("result"),
    /** Public key of the worker that took it last. */
    providerPubkey: text("provider_pubkey"),
    /** JSON array of every key that held a lease. */
    holders: text("holders").notNull().default("[]"),
    createdAt: integer("created_at").notNull(),
    /** Null on failed jobs [SPEC]. */
    completedAt: integer("completed_at"),
    /** When the job became terminal, failed or not. */
    endedAt: integer("ended_at"),
  },
  (table) => [
    index("jobs_ended_at")
      .on(table.endedAt)
      .where(sql`ended_at IS NOT NULL`),
    // What retention has to empty, without those that it has emptied already.
    index("jobs_full")
      .on(table.endedAt)
      .where(sql`ended_at IS NOT NULL AND payload IS NOT NULL`),
  ],
);

/** Receipts as signed [RC1], one per completed job. */
export const receipts = sqliteTable("receipts", {
  jobId: text("job_id").primaryKey(),
  /** The `job_id` that the worker signed; another one only where the policy `record` took an invalid receipt [RC4]. */
  signedJobId: text("signed_job_id").notNull(),
  providerPubkey: text("provider_pubkey").notNull(),
  outputHash: text("output_hash").notNull(),
  /** ISO 8601, as the worker signed it. */
  completedAt: text("completed_at").notNull(),
  paymentRef: text("payment_ref"),
  /** Base64. */
  signature: text("signature").notNull(),
  /** Whether the coordinator found it valid when it arrived [RC4]. Not exposed. */
  verified: integer("verified", { mode: "boolean" }).notNull(),
});

/** Pairing codes and what became of them. Of two rows with one code the newest counts [API4]. */
export const pairings = sqliteTable(
  "pairings",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    pairingCode: text("pairing_code").notNull(),
    userId: text("user_id").notNull(),
    providerPubkey: text("provider_pubkey"),
    claimed: integer("claimed", { mode: "boolean" }).notNull().default(false),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    pairedAt: integer("paired_at"),
  },
  (table) => [index("pairings_code").on(table.pairingCode, table.id), index("pairings_user").on(table.userId, table.claimed)],
);

/** Copies of the ledger's rows, for the operator's books: the ledger itself is in the hub, and it alone decides [PY6]. */
export const payments = sqliteTable(
  "payments",
  {
    /** One real payment: `network:asset:from:nonce` on EVM, SHA-256 hex of the transaction message on SVM. */
    key: text("key").primaryKey(),
    /** Grows with every change; a late write with a lower one changes nothing. */
    rev: integer("rev").notNull(),
    state: text("state", { enum: ["held", "settling", "unknown", "settled", "credit", "spent", "void"] }).notNull(),
    /** Of a void one: `unused`, `refused` or `paid_by_credit`. */
    reason: text("reason"),
    /** The job that it pays for, or paid for last. */
    jobId: text("job_id").notNull(),
    payer: text("payer"),
    /** CAIP-2 network and token, `eip155:10143/0x534b…`. */
    asset: text("asset").notNull(),
    /** Atomic units. */
    amount: text("amount").notNull(),
    /** The settlement; empty where it was found by `already used`, null while nothing has moved. */
    settlement: text("settlement"),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [index("payments_state").on(table.state, table.updatedAt), index("payments_job").on(table.jobId)],
);

/** Every user that ever made a pairing code, and the proof that the first one came with [TR2]. A row never changes: the first counts. */
export const users = sqliteTable("users", {
  userId: text("user_id").primaryKey(),
  /** Lowercase hex of a SHA-256; null for a user whose first code came without a token. */
  tokenHash: text("token_hash"),
  createdAt: integer("created_at").notNull(),
});

/** Stakes that the operator sets by CLI, for `STAKE_SOURCE=table` [ST1]. */
export const stakes = sqliteTable("stakes", {
  providerPubkey: text("provider_pubkey").primaryKey(),
  /** Token units. */
  amount: real("amount").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
