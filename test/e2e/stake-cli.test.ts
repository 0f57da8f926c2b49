// `compute-router stake` on a real wrangler, whose every call costs 3 s of CPU. test/unit/cli/stake.test.ts has the details.
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT, wranglerEnvironment } from "../../scripts/coordinator-process.ts";
import { MIGRATIONS } from "../../src/coordinator/store/migrations.ts";
import { keyPair } from "../../src/receipt/index.ts";
import { CLI } from "../support/cli.ts";
import { temporaryFolder } from "../support/coordinator.ts";

const { publicKey } = keyPair(new Uint8Array(32).fill(1));

/** The wrangler file of the evm instance, whose migrations are here one file: for each file wrangler starts a runtime, at 1 s of CPU. */
function folderOfOperator(): string {
  const folder = temporaryFolder("operator");
  const migrations = "db";
  const text = readFileSync(join(ROOT, "wrangler.evm.toml"), "utf8");
  const [, folderOfAll] = /^migrations_dir = "(.+)"$/m.exec(text) ?? expect.unreachable();
  writeFileSync(join(folder, "wrangler.evm.toml"), text.replace(`migrations_dir = "${folderOfAll}"`, `migrations_dir = "${migrations}"`));
  mkdirSync(join(folder, migrations));
  const all = MIGRATIONS.map(({ name }) => readFileSync(join(ROOT, folderOfAll ?? "", name), "utf8"));
  writeFileSync(join(folder, migrations, "0000_all.sql"), all.join("\n--> statement-breakpoint\n"));
  // Where `npx` finds wrangler.
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

it("[API10, ST1] before the coordinator has made its tables, the command makes them; wrangler keeps what is set", async () => {
  const [folder, state] = [folderOfOperator(), temporaryFolder("stake")];
  const stake = async (...args: string[]): Promise<string> => {
    const command = [CLI, "stake", ...args, "--config", "wrangler.evm.toml", "--state", state];
    const { stdout } = await promisify(execFile)(process.execPath, command, { cwd: folder, env: { ...process.env, ...wranglerEnvironment(state) } });
    return stdout;
  };
  expect(await stake("set", publicKey, "99.999999")).toBe(`${publicKey}  Open      99.999999\n`);
  expect(await stake("list")).toMatch(new RegExp(`^${publicKey}  Open      99.999999  since 20..-..-..\n$`));
});
