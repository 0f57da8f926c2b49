import { TIMING } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import { type Migration, MIGRATIONS } from "./migrations.ts";
import { TUNING } from "../tuning.ts";

/** D1 did not answer in time or failed; what a write did is unknown. */
export class StoreUnavailable extends Error {
  override readonly name: string = "StoreUnavailable";
  /** What D1 itself said: tables and codes, never a value. */
  readonly reason: string;

  constructor(cause: unknown) {
    super("the store did not answer", { cause });
    this.reason = rootMessage(cause);
  }

  /** May be logged. */
  get safeReason(): string {
    return this.reason;
  }
}

/** The message at the bottom of a chain of causes: drizzle's own, on top, lists the query's parameters. */
function rootMessage(error: unknown): string {
  let root = error;
  while (root instanceof Error && root.cause !== undefined) root = root.cause;
  return root instanceof Error ? root.message : typeof root;
}

/** Awaits one D1 call for at most 5 s: D1 has been seen to stall for 30 s and more. @throws {StoreUnavailable} when it is late or fails */
export async function withDeadline<T>(call: PromiseLike<T>, deadline: number = TIMING.store): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${deadline} ms`)), deadline);
  });
  try {
    return await Promise.race([call, late]);
  } catch (error) {
    throw new StoreUnavailable(error);
  } finally {
    clearTimeout(timer);
  }
}

// Every statement to D1 goes through `readD1` or `writeD1`. They bring its schema up to date by themselves, so that neither a deploy nor a start
// needs a step of its own [API10].

/** wrangler's own table of applied migrations, as `wrangler d1 migrations apply` makes it: so that command stays possible, before and after. */
const TABLE = `CREATE TABLE IF NOT EXISTS "d1_migrations"(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;
/** What SQLite says to a statement that is newer than the schema. */
const SCHEMA_ERROR = /no such (?:table|column)|has no column named|ON CONFLICT clause does not match/i;

/** A migration did not go through; nothing of it was applied. */
class MigrationFailed extends StoreUnavailable {
  override readonly name: string = "MigrationFailed";
  /** Its file in migrations/. */
  readonly migration: string;
  constructor(migration: string, cause: unknown) {
    super(cause);
    this.migration = migration;
  }
}

/** What this isolate knows about the schema of one D1. */
type Standing = {
  /** True once every migration of this code was found or applied. */
  isCurrent: boolean;
  /** Until when (ms since the epoch) nothing is tried again, and why. */
  pause: { until: number; error: StoreUnavailable } | null;
  /** The migration whose failure was logged. */
  reported: string | null;
};

const standings = new WeakMap<D1Database, Standing>();

/**
 * Runs a statement that only reads. It runs first: if it needs a table or column that D1 lacks, the schema is brought up to date, and it runs again.
 * @param statement starts the call; it may be called twice
 * @param deadline of each call, ms
 * @throws {StoreUnavailable}
 */
export async function readD1<T>(db: D1Database, statement: () => PromiseLike<T>, deadline?: number): Promise<T> {
  try {
    return await withDeadline(statement(), deadline);
  } catch (error) {
    if (!isSchemaError(error)) throw error;
    await bringUpToDate(db, error);
  }
  try {
    return await withDeadline(statement(), deadline);
  } catch (error) {
    // Every migration is there and a table is not: somebody dropped it. Looking again for each request would help nobody.
    if (isSchemaError(error)) pause(standingOf(db), error);
    throw error;
  }
}

/**
 * Runs a statement that writes. An old schema may take a write of newer code without an error, and yet wrongly (a unique index that is not there), so
 * the schema is checked before the first write of an isolate; later writes cost nothing more.
 * @param statement starts the call; it may be called twice, the second time only after the first was refused as a whole
 * @throws {StoreUnavailable}
 */
export async function writeD1<T>(db: D1Database, statement: () => PromiseLike<T>): Promise<T> {
  if (!standingOf(db).isCurrent) await bringUpToDate(db, null);
  return await readD1(db, statement);
}

/**
 * Applies the migrations that D1 lacks, in order, each as one batch that also notes its name: all of it or nothing. Names that this code does not know
 * are of a newer version, and are left alone.
 * @throws {MigrationFailed} for the first one that does not go through
 * @throws {StoreUnavailable} when D1 does not answer
 */
export async function migrate(db: D1Database, migrations: readonly Migration[] = MIGRATIONS): Promise<void> {
  let applied = await appliedNames(db);
  for (const { name, statements } of migrations) {
    if (applied.has(name)) continue;
    try {
      const note = db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name);
      // The name comes first: it is unique, so of two isolates at once the slower one is refused there.
      await withDeadline(db.batch([db.prepare(TABLE), note, ...statements.map((sql) => db.prepare(sql))]), TUNING.migration);
    } catch (error) {
      // Another isolate was faster, or D1 applied it and its answer was lost.
      applied = await appliedNames(db).catch(() => applied);
      if (!applied.has(name)) throw new MigrationFailed(name, error);
    }
  }
}

async function appliedNames(db: D1Database): Promise<ReadonlySet<unknown>> {
  try {
    const { results } = await withDeadline(db.prepare("SELECT name FROM d1_migrations").all());
    return new Set(results.map(({ name }) => name));
  } catch (error) {
    if (isSchemaError(error)) return new Set();
    throw error;
  }
}

/** @param cause the error of the statement that needs it, null before a write */
async function bringUpToDate(db: D1Database, cause: StoreUnavailable | null): Promise<void> {
  const standing = standingOf(db);
  const now = Date.now();
  // A clock that was put back must not make the pause longer.
  if (standing.pause !== null && now < standing.pause.until && now >= standing.pause.until - TUNING.migrationPause) throw cause ?? standing.pause.error;
  try {
    await migrate(db);
    Object.assign(standing, { isCurrent: true, pause: null, reported: null } satisfies Standing);
  } catch (error) {
    if (error instanceof MigrationFailed) {
      pause(standing, error);
      if (standing.reported !== error.migration) logError("migration_failed", { migration: error.migration, ...errorFacts(error) });
      standing.reported = error.migration;
    }
    throw error;
  }
}

function standingOf(db: D1Database): Standing {
  let standing = standings.get(db);
  if (standing === undefined) standings.set(db, (standing = { isCurrent: false, pause: null, reported: null }));
  return standing;
}

function pause(standing: Standing, error: StoreUnavailable): void {
  standing.pause = { until: Date.now() + TUNING.migrationPause, error };
}

function isSchemaError(error: unknown): error is StoreUnavailable {
  return error instanceof StoreUnavailable && SCHEMA_ERROR.test(error.reason);
}
