CREATE TABLE `payment_orders` (
	`id` text PRIMARY KEY NOT NULL,
	`payment_key` text NOT NULL,
	`verb` text NOT NULL,
	`reason` text NOT NULL,
	`created_at` integer NOT NULL,
	`done_at` integer,
	`outcome` text
);
--> statement-breakpoint
CREATE INDEX `payment_orders_open` ON `payment_orders` (`created_at`) WHERE done_at IS NULL;--> statement-breakpoint
CREATE INDEX `payment_orders_payment` ON `payment_orders` (`payment_key`);