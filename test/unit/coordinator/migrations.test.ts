import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readMigrations } from "../../../scripts/migrations.ts";
import { MIGRATIONS } from "../../../src/coordinator/store/migrations.ts";

describe("the check of migrations/", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "migrations-"));
    cpSync("migrations", folder, { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const check = async () => (await readMigrations(pathToFileURL(`${folder}/`))).problems.join("\n");
  const edit = (name: string, from: string, to: string) => {
    const text = readFileSync(join(folder, name), "utf8");
    expect(text).toContain(from);
    writeFileSync(join(folder, name), text.replace(from, to));
  };

  test("[API10] finds no problem in the committed migrations, and the coordinator has them all", async () => {
    const { problems, text } = await readMigrations();
    expect(problems).toEqual([]);
    expect(text).toBe(readFileSync("src/coordinator/store/migrations.ts", "utf8"));
    expect(MIGRATIONS).toHaveLength(JSON.parse(readFileSync("migrations/meta/_journal.json", "utf8")).entries.length);
  });

  test("[API10] finds a schema that has changed since", async () => {
    edit("meta/0006_snapshot.json", '"jobs_full"', '"jobs_empty"');
    expect(await check()).toMatch(/the schema has changed: run `npx drizzle-kit generate[^]*jobs_full/);
  });

  test.each([
    ["a column", "0002_user_tokens.sql", "`token_hash` text,", "`token_hash` text NOT NULL,", "the migrations make users as"],
    ["an index", "0001_payments.sql", "(`state`,`updated_at`)", "(`state`)", "the migrations make payments_state as"],
  ])("[API10] finds %s that was edited by hand", async (_, name, from, to, message) => {
    edit(name, from, to);
    expect(await check()).toContain(message);
  });

  test.each([
    ["DROP TABLE `jobs`", "a migration may only add; this statement does more: DROP TABLE `jobs`"],
    ["ALTER TABLE `jobs` RENAME TO `work`", "a migration may only add; this statement does more: ALTER TABLE"],
    ["ALTER TABLE `jobs` DROP COLUMN `result`", "a migration may only add; this statement does more: ALTER TABLE"],
    ["PRAGMA foreign_keys = OFF", "a migration may only add; this statement does more: PRAGMA"],
    ["DELETE FROM `jobs`", "a migration may only add; this statement does more: DELETE"],
    ["CREATE TABLE `a` (`b` text);\nCREATE TABLE `c` (`d` text)", "two statements must be separated by `--> statement-breakpoint`"],
    [`CREATE TABLE \`a\` (\`${"b".repeat(100_000)}\` text)`, "longer than D1 accepts"],
  ])("[API10] refuses %s", async (statement, message) => {
    appendFileSync(join(folder, "0003_pairings_used.sql"), `--> statement-breakpoint\n${statement};`);
    expect(await check()).toContain(message);
  });

  test("[API10] refuses a file that is not in the journal", async () => {
    writeFileSync(join(folder, "0007_forgotten.sql"), "CREATE TABLE `a` (`b` text);");
    expect(await check()).toContain("0007_forgotten.sql; its journal has 0000_init.sql");
  });
});
