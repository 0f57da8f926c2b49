import { applyD1Migrations, env } from "cloudflare:test";

// Storage is per file: every file begins with an empty, migrated database.
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
