// Written by scripts/migrations.ts; do not edit.

/** One file of migrations/: its name, by which wrangler records it, and its statements. */
export type Migration = { name: string; statements: readonly string[] };

/** All migrations, in the order in which they are applied. */
export const MIGRATIONS: readonly Migration[] = [
  {
    name: "0000_init.sql",
    statements: [
      "CREATE TABLE `jobs` (\n\t`id` text PRIMARY KEY NOT NULL,\n\t`job_type` text NOT NULL,\n\t`policy` text NOT NULL,\n\t`privacy_class` text NOT NULL,\n\t`user_id` text NOT NULL,\n\t`payload` text,\n\t`status` text NOT NULL,\n\t`rev` integer NOT NULL,\n\t`attempt` integer NOT NULL,\n\t`result` text,\n\t`provider_pubkey` text,\n\t`holders` text DEFAULT '[]' NOT NULL,\n\t`created_at` integer NOT NULL,\n\t`completed_at` integer,\n\t`ended_at` integer\n)",
      "CREATE INDEX `jobs_ended_at` ON `jobs` (`ended_at`) WHERE ended_at IS NOT NULL",
      "CREATE TABLE `pairings` (\n\t`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,\n\t`pairing_code` text NOT NULL,\n\t`user_id` text NOT NULL,\n\t`provider_pubkey` text,\n\t`claimed` integer DEFAULT false NOT NULL,\n\t`created_at` integer NOT NULL,\n\t`expires_at` integer NOT NULL,\n\t`paired_at` integer\n)",
      "CREATE INDEX `pairings_code` ON `pairings` (`pairing_code`,`id`)",
      "CREATE INDEX `pairings_user` ON `pairings` (`user_id`,`claimed`)",
      "CREATE TABLE `receipts` (\n\t`job_id` text PRIMARY KEY NOT NULL,\n\t`signed_job_id` text NOT NULL,\n\t`provider_pubkey` text NOT NULL,\n\t`output_hash` text NOT NULL,\n\t`completed_at` text NOT NULL,\n\t`payment_ref` text,\n\t`signature` text NOT NULL,\n\t`verified` integer NOT NULL\n)",
      "CREATE TABLE `stakes` (\n\t`provider_pubkey` text PRIMARY KEY NOT NULL,\n\t`amount` real NOT NULL,\n\t`updated_at` integer NOT NULL\n)",
    ],
  },
  {
    name: "0001_payments.sql",
    statements: [
      "CREATE TABLE `payments` (\n\t`key` text PRIMARY KEY NOT NULL,\n\t`rev` integer NOT NULL,\n\t`state` text NOT NULL,\n\t`reason` text,\n\t`job_id` text NOT NULL,\n\t`payer` text,\n\t`asset` text NOT NULL,\n\t`amount` text NOT NULL,\n\t`settlement` text,\n\t`updated_at` integer NOT NULL\n)",
      "CREATE INDEX `payments_state` ON `payments` (`state`,`updated_at`)",
      "CREATE INDEX `payments_job` ON `payments` (`job_id`)",
    ],
  },
  {
    name: "0002_user_tokens.sql",
    statements: [
      "CREATE TABLE `users` (\n\t`user_id` text PRIMARY KEY NOT NULL,\n\t`token_hash` text,\n\t`created_at` integer NOT NULL\n)",
      "CREATE INDEX `jobs_full` ON `jobs` (`ended_at`) WHERE ended_at IS NOT NULL AND payload IS NOT NULL",
      "INSERT INTO `users` (`user_id`, `token_hash`, `created_at`) SELECT `user_id`, NULL, min(`created_at`) FROM `pairings` GROUP BY `user_id`",
    ],
  },
  {
    name: "0003_pairings_used.sql",
    statements: [
      "ALTER TABLE `pairings` ADD `used_at` integer DEFAULT 0 NOT NULL",
      "CREATE INDEX `pairings_unclaimed` ON `pairings` (`expires_at`) WHERE claimed = 0",
      "CREATE INDEX `pairings_used` ON `pairings` (`used_at`) WHERE claimed = 1",
      "ALTER TABLE `users` ADD `used_at` integer DEFAULT 0 NOT NULL",
      "CREATE INDEX `users_used` ON `users` (`used_at`)",
    ],
  },
  {
    name: "0004_payment_balance.sql",
    statements: ["ALTER TABLE `payments` ADD `balance` text"],
  },
  {
    name: "0005_payment_orders.sql",
    statements: [
      "CREATE TABLE `payment_orders` (\n\t`id` text PRIMARY KEY NOT NULL,\n\t`payment_key` text NOT NULL,\n\t`verb` text NOT NULL,\n\t`reason` text NOT NULL,\n\t`created_at` integer NOT NULL,\n\t`done_at` integer,\n\t`outcome` text\n)",
      "CREATE INDEX `payment_orders_open` ON `payment_orders` (`created_at`) WHERE done_at IS NULL",
      "CREATE INDEX `payment_orders_payment` ON `payment_orders` (`payment_key`)",
    ],
  },
  {
    name: "0006_user_jobs.sql",
    statements: ["CREATE INDEX `jobs_user` ON `jobs` (`user_id`,`created_at`,`id`)"],
  },
];
