// Access to D1. Every statement of a job's life that reads or writes D1 goes through `readD1` or `writeD1`. Both apply missing migrations by
// themselves, so neither a deploy nor a start needs a migration step [API10].
import { HOUR, TIMING } from "../../protocol/times.ts";
import { LATE, within } from "../deadline.ts";
import { errorFacts, logError } from "../log.ts";
import { TUNING } from "../tuning.ts";
import { type Migration, MIGRATIONS } from "./migrations.ts";

/** Thrown when D1 fails or does not answer in time. Whether a write was applied is then unknown. */
export class StoreUnavailable extends Error {
  override readonly name: string = "StoreUnavailable";
  /** The message of D1 itself. It names tables and codes, never a value, so it is safe to log. */
  readonly safeReason: string;

  constructor(cause: unknown) {
    super("the store did not answer", { cause });
    this.safeReason = rootMessage(cause);
  }
}

/** wrangler's own table of applied migrations. We use the same one, so that `wrangler d1 migrations apply` can still be used before and after. */
const MIGRATIONS_TABLE = `CREATE TABLE IF NOT EXISTS "d1_migrations"(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;
/** The messages of SQLite for a statement that is newer than the schema. */
const SCHEMA_ERROR = /no such (?:table|column)|has no column named|ON CONFLICT clause does not match/i;

/** A migration failed. No part of it was applied. */
class MigrationFailed extends StoreUnavailable {
  override readonly name: string = "MigrationFailed";
  /** The name of its file in migrations/. */
  readonly migration: string;
  constructor(migration: string, cause: unknown) {
    super(cause);
    this.migration = migration;
  }
}

/** What this isolate knows about the schema of one D1. */
type SchemaState = {
  /** True when every migration of this code that writes need is known to be applied. */
  isCurrent: boolean;
  /** No migration is tried until this time (ms since the epoch), because of this error. */
  pause: { until: number; error: StoreUnavailable } | null;
  /** The migration whose failure was logged last: it is logged only once. */
  reported: string | null;
  /** The cron builds no indexes until this time (ms since the epoch). */
  indexesDue: number;
};

const schemaStates = new WeakMap<D1Database, SchemaState>();

/**
 * Runs a statement that only reads. If it fails because D1 lacks a table or column, the missing migrations are applied and it runs again.
 * @param statement starts the call; it may be called twice
 * @param deadline of each call, in ms
 * @throws {StoreUnavailable} if D1 fails or is late
 */
export async function readD1<T>(db: D1Database, statement: () => PromiseLike<T>, deadline?: number): Promise<T> {
  try {
    return await withDeadline(statement(), deadline);
  } catch (error) {
    if (!isSchemaError(error)) throw error;
    await updateSchema(db, error);
  }
  try {
    return await withDeadline(statement(), deadline);
  } catch (error) {
    // Every migration is applied and yet a table is missing, so someone dropped it. A new check for each request would not help: pause.
    if (isSchemaError(error)) pause(schemaStateOf(db), error);
    throw error;
  }
}

/**
 * Runs a statement that writes. An old schema may accept a write of newer code without an error and still store it wrongly, for example because a
 * unique index is missing. So the schema is checked before the first write of an isolate; later writes need no check.
 * @param statement starts the call; it may be called twice, the second time only after the first was refused as a whole
 * @throws {StoreUnavailable} if D1 fails or is late
 */
export async function writeD1<T>(db: D1Database, statement: () => PromiseLike<T>): Promise<T> {
  if (!schemaStateOf(db).isCurrent) await updateSchema(db, null);
  return await readD1(db, statement);
}

/**
 * Awaits one D1 call for at most `deadline` ms, because D1 sometimes stalls for 30 s and more.
 * @throws {StoreUnavailable} if the call is late or fails
 */
export async function withDeadline<T>(call: PromiseLike<T>, deadline: number = TIMING.store): Promise<T> {
  try {
    const answer = await within(deadline, call);
    if (answer === LATE) throw new Error(`no answer in ${deadline} ms`);
    return answer;
  } catch (error) {
    throw new StoreUnavailable(error);
  }
}

/**
 * Applies the missing migrations in order. Each is one batch that also records its name, so it is applied as a whole or not at all. Recorded names
 * that this code does not know belong to a newer version and are ignored. Where D1 is large, `indexes` says whether migrations of indexes only are applied
 * too: no write needs them, and D1 may not have the time for them.
 * @throws {MigrationFailed} for the first migration that fails
 * @throws {StoreUnavailable} if D1 does not answer
 */
export async function migrate(db: D1Database, migrations: readonly Migration[] = MIGRATIONS, indexes = false): Promise<void> {
  const { names, bytes } = await appliedMigrations(db);
  const leavesIndexes = !indexes && bytes > TUNING.indexedAtOnce;
  let applied = names;
  for (const { name, statements } of migrations) {
    if (applied.has(name) || (leavesIndexes && statements.every((sql) => sql.startsWith("CREATE INDEX")))) continue;
    try {
      const note = db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name);
      // The name is inserted first. It is unique, so if two isolates migrate at once, the slower one fails here.
      await withDeadline(db.batch([db.prepare(MIGRATIONS_TABLE), note, ...statements.map((sql) => db.prepare(sql))]), TUNING.migration);
    } catch (error) {
      // Perhaps another isolate was faster, or D1 applied it and the answer was lost.
      applied = (await appliedMigrations(db).catch(() => null))?.names ?? applied;
      if (!applied.has(name)) throw new MigrationFailed(name, error);
    }
  }
}

/**
 * Builds the indexes that {@link migrate} has left out, because D1 is large. The cron calls this: a failure delays nothing, and is tried again an hour later.
 * @throws {StoreUnavailable} if D1 does not answer
 */
export async function buildIndexes(db: D1Database): Promise<void> {
  const state = schemaStateOf(db);
  const now = Date.now();
  if (now < state.indexesDue && now >= state.indexesDue - HOUR) return;
  state.indexesDue = now + HOUR;
  try {
    await migrate(db, MIGRATIONS, true);
  } catch (error) {
    if (!(error instanceof MigrationFailed)) throw error;
    report(state, error);
  }
}

/** Returns the names of the applied migrations, and the size of D1 as D1 says it. */
async function appliedMigrations(db: D1Database): Promise<{ names: ReadonlySet<unknown>; bytes: number }> {
  try {
    const { results, meta } = await withDeadline(db.prepare("SELECT name FROM d1_migrations").all());
    return { names: new Set(results.map(({ name }) => name)), bytes: meta.size_after };
  } catch (error) {
    if (isSchemaError(error)) return { names: new Set(), bytes: 0 };
    throw error;
  }
}

/**
 * Applies the missing migrations, unless one failed a moment ago.
 * @param cause the error of the statement that needs the newer schema; null before a write
 */
async function updateSchema(db: D1Database, cause: StoreUnavailable | null): Promise<void> {
  const state = schemaStateOf(db);
  const now = Date.now();
  // If the clock was set back, the pause must not become longer.
  if (state.pause !== null && now < state.pause.until && now >= state.pause.until - TUNING.migrationPause) throw cause ?? state.pause.error;
  try {
    await migrate(db);
    Object.assign(state, { isCurrent: true, pause: null, reported: null } satisfies Partial<SchemaState>);
  } catch (error) {
    if (error instanceof MigrationFailed) {
      pause(state, error);
      report(state, error);
    }
    throw error;
  }
}

function schemaStateOf(db: D1Database): SchemaState {
  let state = schemaStates.get(db);
  if (state === undefined) schemaStates.set(db, (state = { isCurrent: false, pause: null, reported: null, indexesDue: 0 }));
  return state;
}

function report(state: SchemaState, error: MigrationFailed): void {
  if (state.reported !== error.migration) logError("migration_failed", { migration: error.migration, ...errorFacts(error) });
  state.reported = error.migration;
}

function pause(state: SchemaState, error: StoreUnavailable): void {
  state.pause = { until: Date.now() + TUNING.migrationPause, error };
}

function isSchemaError(error: unknown): error is StoreUnavailable {
  return error instanceof StoreUnavailable && SCHEMA_ERROR.test(error.safeReason);
}

/** Returns the message of the innermost cause. Drizzle's own message, at the top, lists the parameters of the query. */
function rootMessage(error: unknown): string {
  let root = error;
  while (root instanceof Error && root.cause !== undefined) root = root.cause;
  return root instanceof Error ? root.message : typeof root;
}
