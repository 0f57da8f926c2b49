CREATE TABLE `users` (
	`user_id` text PRIMARY KEY NOT NULL,
	`token_hash` text,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `jobs_full` ON `jobs` (`ended_at`) WHERE ended_at IS NOT NULL AND payload IS NOT NULL;--> statement-breakpoint
INSERT INTO `users` (`user_id`, `token_hash`, `created_at`) SELECT `user_id`, NULL, min(`created_at`) FROM `pairings` GROUP BY `user_id`;
