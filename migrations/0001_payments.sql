CREATE TABLE `payments` (
	`key` text PRIMARY KEY NOT NULL,
	`rev` integer NOT NULL,
	`state` text NOT NULL,
	`reason` text,
	`job_id` text NOT NULL,
	`payer` text,
	`asset` text NOT NULL,
	`amount` text NOT NULL,
	`settlement` text,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `payments_state` ON `payments` (`state`,`updated_at`);--> statement-breakpoint
CREATE INDEX `payments_job` ON `payments` (`job_id`);