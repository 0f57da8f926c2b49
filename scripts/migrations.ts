// Checks migrations/ and writes it as a module for the coordinator, which applies it automatically [API10]: `node scripts/migrations.ts [--check]`. It is a
// module, because wrangler, vite and tsc treat a `.sql` import differently.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { generateSQLiteDrizzleJson, generateSQLiteMigration } from "drizzle-kit/api";
import * as schema from "../src/coordinator/store/schema.ts";

const FOLDER = new URL("../migrations/", import.meta.url);
const MODULE = new URL("../src/coordinator/store/migrations.ts", import.meta.url);

/** Isolates of the previous version still run during a deploy, so a migration may only add. */
const ADDS = /^(?:CREATE TABLE|CREATE (?:UNIQUE )?INDEX|ALTER TABLE \S+ ADD|INSERT INTO)\s/;
/** Limits of D1: queries per invocation on the free plan (minus room for others), and bytes of one statement. */
const STATEMENTS = 40;
const STATEMENT_BYTES = 100_000;

/** The longest list of statements that the formatter keeps on one line. */
const LINE = 140;

type Migration = { name: string; statements: string[] };
type Snapshot = Parameters<typeof generateSQLiteMigration>[0];
type Journal = { entries: { idx: number; tag: string }[] };

/** The problems of the migrations in `folder`, as sentences for their author, and the text of the module. */
export async function readMigrations(folder: URL = FOLDER): Promise<{ problems: string[]; text: string }> {
  const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
  const { entries }: Journal = JSON.parse(read("meta/_journal.json"));
  const migrations = entries.map(({ tag }) => ({ name: `${tag}.sql`, statements: statementsOf(read(`${tag}.sql`)) }));
  const last: Snapshot = JSON.parse(read(`meta/${String(entries.at(-1)?.idx).padStart(4, "0")}_snapshot.json`));
  const files = readdirSync(folder).filter((name) => name.endsWith(".sql"));
  const problems = [...folderProblems(migrations, files), ...migrations.flatMap(statementProblems), ...(await snapshotProblems(last))];
  // A malformed migration cannot be run.
  if (problems.length === 0) problems.push(...(await tableProblems(migrations)));
  return { problems, text: moduleText(migrations) };
}

function statementsOf(file: string): string[] {
  return file.split("--> statement-breakpoint").map((statement) => statement.trim().replace(/;$/, ""));
}

/** wrangler applies the files by their names, drizzle-kit by its journal. Both must agree. */
function folderProblems(migrations: readonly Migration[], files: readonly string[]): string[] {
  const [inFolder, inJournal] = [files.toSorted().join(", "), migrations.map(({ name }) => name).join(", ")];
  return inFolder === inJournal ? [] : [`migrations/ has ${inFolder}; its journal has ${inJournal}`];
}

function statementProblems({ name, statements }: Migration): string[] {
  const problems = statements.length > STATEMENTS ? [`migrations/${name}: more than ${STATEMENTS} statements; split it into two migrations`] : [];
  for (const statement of statements) {
    const begin = statement.split("\n", 1)[0];
    if (!ADDS.test(statement)) problems.push(`migrations/${name}: a migration may only add; this statement does more: ${begin}`);
    if (Buffer.byteLength(statement) > STATEMENT_BYTES) problems.push(`migrations/${name}: longer than D1 accepts: ${begin}`);
    if (statement.includes(";")) problems.push(`migrations/${name}: two statements must be separated by \`--> statement-breakpoint\`: ${begin}`);
  }
  return problems;
}

/** Checks that the last migration was made from the current schema. */
async function snapshotProblems(last: Snapshot): Promise<string[]> {
  const changes = await generateSQLiteMigration(last, await generateSQLiteDrizzleJson(schema));
  const advice = "the schema has changed: run `npx drizzle-kit generate --name what_changes && npm run migrations`";
  return changes.length === 0 ? [] : [[advice, ...changes].join("\n")];
}

/** Checks that all migrations together create the tables and indexes of the schema, because a file may have been edited by hand. */
async function tableProblems(migrations: readonly Migration[]): Promise<string[]> {
  const empty = await generateSQLiteDrizzleJson({});
  const wanted = tablesAfter(await generateSQLiteMigration(empty, await generateSQLiteDrizzleJson(schema)));
  const made = tablesAfter(migrations.flatMap(({ statements }) => statements));
  const different = [...new Set([...wanted.keys(), ...made.keys()])].filter((name) => made.get(name) !== wanted.get(name));
  return different.map((name) => `the migrations make ${name} as\n  ${made.get(name) ?? "nothing"}\nand the schema says\n  ${wanted.get(name) ?? "nothing"}`);
}

/** Every table and index by its name, as a text that does not depend on the order of its columns. */
function tablesAfter(statements: readonly string[]): ReadonlyMap<string, string> {
  const database = new DatabaseSync(":memory:");
  for (const statement of statements) database.exec(statement);
  const objects = database.prepare("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").all();
  const described = objects.map(({ type, name, sql }): [string, string] => {
    if (type !== "table") return [String(name), String(sql).replaceAll(/\s+/g, " ")];
    const columns = database.prepare('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) ORDER BY name').all(String(name));
    return [String(name), JSON.stringify(columns)];
  });
  database.close();
  return new Map(described);
}

function moduleText(migrations: readonly Migration[]): string {
  const entries = migrations.map(({ name, statements }) => {
    const lines = statements.map((statement) => `      ${JSON.stringify(statement)},\n`);
    // As the formatter writes it.
    const isShort = statements.length === 1 && JSON.stringify(statements).length < LINE;
    const list = isShort ? JSON.stringify(statements) : `[\n${lines.join("")}    ]`;
    return `  {\n    name: ${JSON.stringify(name)},\n    statements: ${list},\n  },\n`;
  });
  return `// Written by scripts/migrations.ts; do not edit.

/** One file of migrations/: its name, by which wrangler records it, and its statements. */
export type Migration = { name: string; statements: readonly string[] };

/** All migrations, in the order in which they are applied. */
export const MIGRATIONS: readonly Migration[] = [
${entries.join("")}];
`;
}

if (process.argv[1] !== undefined && basename(process.argv[1]) === basename(import.meta.filename)) {
  const { problems, text } = await readMigrations();
  if (!process.argv.includes("--check")) writeFileSync(MODULE, text);
  else if (readFileSync(MODULE, "utf8") !== text) problems.push("src/coordinator/store/migrations.ts differs from migrations/: run `npm run migrations`");
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
