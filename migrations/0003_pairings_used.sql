ALTER TABLE `pairings` ADD `used_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `pairings_unclaimed` ON `pairings` (`expires_at`) WHERE claimed = 0;--> statement-breakpoint
CREATE INDEX `pairings_used` ON `pairings` (`used_at`) WHERE claimed = 1;--> statement-breakpoint
ALTER TABLE `users` ADD `used_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `users_used` ON `users` (`used_at`);