// The tables of D1, where finished jobs, receipts, payments and trust are kept. Migrations are generated from this file.
import { sql } from "drizzle-orm";
import { index, integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Jobs: one row per job, kept until retention deletes it. Times are in ms since the epoch. Only the hub writes here (docs/architecture.md). */
export const jobs = sqliteTable(
  "jobs",
  {
    id: text("id").primaryKey(),
    jobType: text("job_type", { enum: ["LLM_INFER", "TASK"] }).notNull(),
    policy: text("policy", { enum: ["FAST", "CHEAP"] }).notNull(),
    privacyClass: text("privacy_class", { enum: ["PUBLIC", "PRIVATE"] }).notNull(),
    userId: text("user_id").notNull(),
    /** JSON text as sent to the worker; empty if the job ended and no worker started it; null after retention erased it [LM3]. */
    payload: text("payload"),
    status: text("status", { enum: ["pending", "assigned", "running", "completed", "failed"] }).notNull(),
    /** Grows with every change. A replayed or late write with a lower number changes nothing. */
    rev: integer("rev").notNull(),
    attempt: integer("attempt").notNull(),
    /** JSON text of the object that REST shows; null before the end, and after retention erased it. */
    result: text("result"),
    /** Public key of the worker that had the job last. */
    providerPubkey: text("provider_pubkey"),
    /** JSON array of all keys that had a lease of this job. */
    holders: text("holders").notNull().default("[]"),
    createdAt: integer("created_at").notNull(),
    /** Null on failed jobs [SPEC]. */
    completedAt: integer("completed_at"),
    /** When the job became terminal, failed or not. */
    endedAt: integer("ended_at"),
  },
  (table) => [
    index("jobs_user").on(table.userId, table.createdAt, table.id),
    index("jobs_ended_at")
      .on(table.endedAt)
      .where(sql`ended_at IS NOT NULL`),
    // The rows whose results retention still has to erase.
    index("jobs_full")
      .on(table.endedAt)
      .where(sql`ended_at IS NOT NULL AND payload IS NOT NULL`),
  ],
);

/** Receipts as signed [RC1], one per completed job. */
export const receipts = sqliteTable("receipts", {
  jobId: text("job_id").primaryKey(),
  /** The `job_id` that the worker signed. It differs from `job_id` only if `RECEIPT_POLICY=record` accepted an invalid receipt [RC4]. */
  signedJobId: text("signed_job_id").notNull(),
  providerPubkey: text("provider_pubkey").notNull(),
  outputHash: text("output_hash").notNull(),
  /** ISO 8601, as the worker signed it. */
  completedAt: text("completed_at").notNull(),
  paymentRef: text("payment_ref"),
  /** Base64. */
  signature: text("signature").notNull(),
  /** True if the receipt was valid when it arrived [RC4]. REST does not show it. */
  verified: integer("verified", { mode: "boolean" }).notNull(),
});

/** Pairing codes, and the pairings that their claims made. If two rows have the same code, the newest counts [API4]. */
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
    /** When it was claimed, or when a PRIVATE commit of the user last had this worker to choose from, within a day. 0 if nobody has noted it yet. */
    usedAt: integer("used_at").notNull().default(0),
  },
  (table) => [
    index("pairings_code").on(table.pairingCode, table.id),
    index("pairings_user").on(table.userId, table.claimed),
    // What retention deletes: codes that nobody claimed, and pairings that nobody uses.
    index("pairings_unclaimed")
      .on(table.expiresAt)
      .where(sql`claimed = 0`),
    index("pairings_used")
      .on(table.usedAt)
      .where(sql`claimed = 1`),
  ],
);

/** Copies of the payment ledger, for the operator's books. The ledger itself is in the hub, and only the hub decides by it [PY6]. */
export const payments = sqliteTable(
  "payments",
  {
    /** One real payment: `network:asset:from:nonce` on EVM, SHA-256 hex of the transaction message on SVM. */
    key: text("key").primaryKey(),
    /** Grows with every change. A late write with a lower number changes nothing. */
    rev: integer("rev").notNull(),
    state: text("state", { enum: ["held", "settling", "unknown", "unresolved", "settled", "covered", "credit", "spent", "void"] }).notNull(),
    /**
     * If the state is `void`: `unused`, `refused`, `paid_by_credit`, `given_back`, `by_operator` or `by_chain`. If it is `unresolved`: `expired`,
     * `already_used`, `assumed` or `illegal_move`.
     */
    reason: text("reason"),
    /** The job that the request with this payment started last. */
    jobId: text("job_id").notNull(),
    payer: text("payer"),
    /** CAIP-2 network and token, `eip155:10143/0x534b…`. */
    asset: text("asset").notNull(),
    /** Atomic units. */
    amount: text("amount").notNull(),
    /**
     * The transaction that has moved its own money. Empty if it is not known: "already used" proved the settlement, or the operator did; null while no money
     * has moved.
     */
    settlement: text("settlement"),
    updatedAt: integer("updated_at").notNull(),
    /** What of this payment is left in its payer's balance, in atomic units; null if nothing of it ever was or is. */
    balance: text("balance"),
  },
  (table) => [index("payments_state").on(table.state, table.updatedAt), index("payments_job").on(table.jobId)],
);

/** The operator's orders about unresolved payments. The command line writes them, and the hub carries each out once and notes the outcome [PY8]. */
export const paymentOrders = sqliteTable(
  "payment_orders",
  {
    id: text("id").primaryKey(),
    /** The `key` of the payment. */
    paymentKey: text("payment_key").notNull(),
    verb: text("verb", { enum: ["credit", "void"] }).notNull(),
    /** Why, in the operator's words. */
    reason: text("reason").notNull(),
    createdAt: integer("created_at").notNull(),
    doneAt: integer("done_at"),
    /** `done`, `not_unresolved`, `no_such_payment`, `has_balance` or `invalid`; null until the hub has seen the order. */
    outcome: text("outcome"),
  },
  (table) => [
    index("payment_orders_open")
      .on(table.createdAt)
      .where(sql`done_at IS NULL`),
    index("payment_orders_payment").on(table.paymentKey),
  ],
);

/** Every user that ever created a pairing code, with the hash of the token that came with the first code, which never changes [TR2]. */
export const users = sqliteTable(
  "users",
  {
    userId: text("user_id").primaryKey(),
    /** SHA-256 in lowercase hex; null if the first code came without a token. */
    tokenHash: text("token_hash"),
    createdAt: integer("created_at").notNull(),
    /** When it was created, or when the user last committed a PRIVATE job, within a day. 0 if nobody has noted it yet. */
    usedAt: integer("used_at").notNull().default(0),
  },
  (table) => [index("users_used").on(table.usedAt)],
);

/** Stakes that the operator sets by command, for `STAKE_SOURCE=table` [ST1]. */
export const stakes = sqliteTable("stakes", {
  providerPubkey: text("provider_pubkey").primaryKey(),
  /** Token units. */
  amount: real("amount").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
