// `compute-router stake`: once on a real wrangler, and in every detail on a wrangler whose `d1 execute` costs no 3 s of CPU.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { MIGRATIONS } from "../../src/coordinator/store/migrations.ts";
import { fingerprintOf, keyPair } from "../../src/receipt/index.ts";
import { temporaryFolder } from "../support/coordinator.ts";

const [one, other] = [1, 2].map((seed) => keyPair(new Uint8Array(32).fill(seed)).publicKey) as [string, string];

async function stake(state: string, args: readonly string[], path = process.env["PATH"]): Promise<string> {
  const command = [join(ROOT, "src", "cli", "main.ts"), "stake", ...args, "--config", "wrangler.evm.toml", "--state", state];
  const { stdout } = await promisify(execFile)(process.execPath, command, { cwd: ROOT, env: { ...process.env, PATH: path } });
  return stdout;
}

it("[API10, ST1] before the coordinator has made its tables, the command makes them; wrangler keeps what is set", { timeout: 150_000 }, async () => {
  const state = temporaryFolder("stake");
  expect(await stake(state, ["set", one, "99.999999"])).toBe(`${one}  Open      99.999999\n`);
  expect(await stake(state, ["list"])).toMatch(new RegExp(`^${one}  Open      99.999999  since 20..-..-..\n$`));
});

/** What `npx --no-install wrangler d1 execute … --command SQL --json` does, on the database in the folder that `--persist-to` names. */
const WRANGLER = `#!${process.execPath}
const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
const [,, ...args] = process.argv;
const after = (name) => args[args.indexOf(name) + 1];
if (args.slice(0, 5).join(" ") !== "--no-install wrangler d1 execute DB" || after("-c") !== "wrangler.evm.toml" || !args.includes("--local")) process.exit(2);
const results = new DatabaseSync(after("--persist-to") + "/d1.sqlite").prepare(after("--command")).all();
console.log("a line of its own\\n" + JSON.stringify([{ results, success: true, meta: {} }]));
`;

it("[ST1] the operator sets, changes, shows, lists and removes stakes", async () => {
  const state = temporaryFolder("stake-details");
  const database = new DatabaseSync(join(state, "d1.sqlite"));
  for (const { statements } of MIGRATIONS) for (const statement of statements) database.exec(statement);
  database.close();
  writeFileSync(join(state, "npx"), WRANGLER, { mode: 0o755 });
  const run = (...args: string[]) => stake(state, args, [state, process.env["PATH"]].join(delimiter));

  expect(await run("list")).toBe("");
  expect(await run("set", one.toUpperCase(), "99.999999")).toBe(`${one}  Open      99.999999\n`);
  expect(await run("set", one, "100")).toBe(`${one}  Verified  100\n`);
  await run("set", other, "1000");
  const today = new Date().toISOString().slice(0, 10);
  expect(await run("list")).toMatch(new RegExp(`^${other}  Sentinel  1000  since 20..-..-..\n${one}  Verified   100  since 20..-..-..\n$`));
  const [first] = (await run("list", "--json")).split("\n");
  expect(JSON.parse(first ?? "")).toEqual({ provider_pubkey: other, amount: 1_000, tier: "Sentinel", updated_at: expect.stringContaining("T") });
  const shown = await run("show", one);
  expect(shown).toContain(`stake  100, since ${today.slice(0, 2)}`);
  expect(shown).toContain(`words  ${fingerprintOf(one)}\n`);
  expect(shown).toContain("tier   Verified: CHEAP and FAST jobs");
  await run("set", one, "0");
  expect(await run("show", one)).toContain("stake  0 (no row)\ntier   Open: CHEAP jobs; FAST from 100 up");
  expect(JSON.parse(await run("show", one, "--json"))).toEqual({ provider_pubkey: one, amount: 0, tier: "Open", updated_at: null });
});
