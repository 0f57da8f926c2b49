import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { fingerprintOf, keyPair } from "../../src/receipt/index.ts";
import { finallyDo } from "../support/finally.ts";

const [one, other] = [1, 2].map((seed) => keyPair(new Uint8Array(32).fill(seed)).publicKey) as [string, string];
const state = mkdtempSync(join(tmpdir(), "compute-router-stake-"));
finallyDo(() => rmSync(state, { recursive: true, force: true }));

async function stake(...args: string[]): Promise<string> {
  const command = [join(ROOT, "src", "cli", "main.ts"), "stake", ...args, "--config", "wrangler.evm.toml", "--state", state];
  const { stdout } = await promisify(execFile)(process.execPath, command, { cwd: ROOT });
  return stdout;
}

it("[API10] before the coordinator has made its tables, the command makes them", { timeout: 150_000 }, async () => {
  expect(await stake("list")).toBe("");
});

// Each of its ten commands starts wrangler, for about 4 s.
it("[ST1] the operator sets, changes, shows, lists and removes stakes", { timeout: 150_000 }, async () => {
  expect(await stake("set", one.toUpperCase(), "99.999999")).toBe(`${one}  Open      99.999999\n`);
  expect(await stake("set", one, "100")).toBe(`${one}  Verified  100\n`);
  await stake("set", other, "1000");
  const today = new Date().toISOString().slice(0, 10);
  expect(await stake("list")).toMatch(new RegExp(`^${other}  Sentinel  1000  since 20..-..-..\n${one}  Verified   100  since 20..-..-..\n$`));
  const [first] = (await stake("list", "--json")).split("\n");
  expect(JSON.parse(first ?? "")).toEqual({ provider_pubkey: other, amount: 1_000, tier: "Sentinel", updated_at: expect.stringContaining("T") });
  const shown = await stake("show", one);
  expect(shown).toContain(`stake  100, since ${today.slice(0, 2)}`);
  expect(shown).toContain(`words  ${fingerprintOf(one)}\n`);
  expect(shown).toContain("tier   Verified: CHEAP and FAST jobs");
  await stake("set", one, "0");
  expect(await stake("show", one)).toContain("stake  0 (no row)\ntier   Open: CHEAP jobs; FAST from 100 up");
  expect(JSON.parse(await stake("show", one, "--json"))).toEqual({ provider_pubkey: one, amount: 0, tier: "Open", updated_at: null });
});
