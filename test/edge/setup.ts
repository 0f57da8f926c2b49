import { applyD1Migrations, env, reset } from "cloudflare:test";

// Test files share a runtime, because its start costs more than most files. So every file starts with empty storage and a migrated database.
await reset();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
