CREATE TABLE `jobs` (
	`id` text PRIMARY KEY NOT NULL,
	`job_type` text NOT NULL,
	`policy` text NOT NULL,
	`privacy_class` text NOT NULL,
	`user_id` text NOT NULL,
	`payload` text,
	`status` text NOT NULL,
	`rev` integer NOT NULL,
	`attempt` integer NOT NULL,
	`result` text,
	`provider_pubkey` text,
	`holders` text DEFAULT '[]' NOT NULL,
	`created_at` integer NOT NULL,
	`completed_at` integer,
	`ended_at` integer
);
--> statement-breakpoint
CREATE INDEX `jobs_ended_at` ON `jobs` (`ended_at`) WHERE ended_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `pairings` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`pairing_code` text NOT NULL,
	`user_id` text NOT NULL,
	`provider_pubkey` text,
	`claimed` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`paired_at` integer
);
--> statement-breakpoint
CREATE INDEX `pairings_code` ON `pairings` (`pairing_code`,`id`);--> statement-breakpoint
CREATE INDEX `pairings_user` ON `pairings` (`user_id`,`claimed`);--> statement-breakpoint
CREATE TABLE `receipts` (
	`job_id` text PRIMARY KEY NOT NULL,
	`signed_job_id` text NOT NULL,
	`provider_pubkey` text NOT NULL,
	`output_hash` text NOT NULL,
	`completed_at` text NOT NULL,
	`payment_ref` text,
	`signature` text NOT NULL,
	`verified` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `stakes` (
	`provider_pubkey` text PRIMARY KEY NOT NULL,
	`amount` real NOT NULL,
	`updated_at` integer NOT NULL
);
