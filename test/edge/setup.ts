import { applyD1Migrations, env, reset } from "cloudflare:test";

// Test files share a runtime, as starting one costs more than most files: every file begins with empty storage and a migrated database.
await reset();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
