import { applyD1Migrations, env, reset } from "cloudflare:test";
import { TUNING } from "../../src/coordinator/tuning.ts";

// Test files share a runtime, because its start costs more than most files. So every file starts with empty storage and a migrated database.
await reset();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
// A hub cannot be evicted while the timer of its outbox runs, so each eviction beside a live job, and the end of each such test, would wait for a second.
Object.assign(TUNING, { outboxLiveLinger: 20 });
