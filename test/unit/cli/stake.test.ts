// `compute-router stake` in every detail, on a wrangler whose `d1 execute` costs no 3 s of CPU. test/e2e/stake-cli.test.ts runs the real one.
import { chownSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { MIGRATIONS } from "../../../src/coordinator/store/migrations.ts";
import { fingerprintOf, keyPair } from "../../../src/receipt/index.ts";
import { PRETENDED_WRANGLER, usedState } from "../../support/pretended-wrangler.ts";
import { runHere } from "../worker/support/cli-here.ts";

const [one, other] = [1, 2].map((seed) => keyPair(new Uint8Array(32).fill(seed)).publicKey) as [string, string];

test.runIf(process.getuid?.() === 0)("[ST1] what root creates in a state folder belongs to the user of the coordinator", async () => {
  const [state, user] = [usedState(), 65_534];
  writeFileSync(join(state, "npx"), `${PRETENDED_WRANGLER}\nprocess.getBuiltinModule("node:fs").writeFileSync(after("--persist-to") + "/v3/d1/new", "");\n`, {
    mode: 0o755,
  });
  const database = new DatabaseSync(join(state, "d1.sqlite"));
  for (const { statements } of MIGRATIONS) for (const statement of statements) database.exec(statement);
  chownSync(state, user, user);
  const env = { PATH: [state, process.env["PATH"]].join(delimiter) };
  const { code } = await runHere(["stake", "set", one, "5", "--config", "wrangler.evm.toml", "--state", state], { env });
  expect(code).toBe(0);
  for (const name of ["v3", "v3/d1/new", "d1.sqlite"]) expect([name, statSync(join(state, name)).uid]).toEqual([name, user]);
});

test("[ST1] the operator sets, changes, shows, lists and removes stakes", async () => {
  const state = usedState();
  const database = new DatabaseSync(join(state, "d1.sqlite"));
  for (const { statements } of MIGRATIONS) for (const statement of statements) database.exec(statement);
  writeFileSync(join(state, "npx"), PRETENDED_WRANGLER, { mode: 0o755 });
  const env = { PATH: [state, process.env["PATH"]].join(delimiter) };
  const run = async (...args: string[]) => {
    const { code, stdout } = await runHere(["stake", ...args, "--config", "wrangler.evm.toml", "--state", state], { env });
    expect(code).toBe(0);
    return stdout;
  };

  expect(await run("list")).toBe("");
  expect(await run("set", one.toUpperCase(), "99.999999")).toBe(`${one}  Open      99.999999\n`);
  database.exec("UPDATE stakes SET updated_at = 0");
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
  database.close();
});

test("where npx is a script beside Node, as on Windows, it is run without a shell", async () => {
  const state = usedState();
  const database = new DatabaseSync(join(state, "d1.sqlite"));
  for (const { statements } of MIGRATIONS) for (const statement of statements) database.exec(statement);
  database.close();
  const { execPath } = process;
  onTestFinished(() => void (process.execPath = execPath));
  process.execPath = join(state, "node");
  symlinkSync(execPath, process.execPath);
  const bin = join(state, "node_modules", "npm", "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "npx-cli.js"), PRETENDED_WRANGLER);
  const run = (...args: string[]) => runHere(["stake", ...args, "--config", "wrangler.evm.toml", "--state", state], { env: { PATH: state } });
  expect(await run("set", one, "100")).toMatchObject({ code: 0, stdout: `${one}  Verified  100\n` });
});
