// `compute-router stake` on a real wrangler, whose every call costs 3 s of CPU. test/unit/cli/stake.test.ts has the details.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { keyPair } from "../../src/receipt/index.ts";
import { temporaryFolder } from "../support/coordinator.ts";

const { publicKey } = keyPair(new Uint8Array(32).fill(1));

async function stake(state: string, ...args: string[]): Promise<string> {
  const command = [join(ROOT, "src", "cli", "main.ts"), "stake", ...args, "--config", "wrangler.evm.toml", "--state", state];
  const { stdout } = await promisify(execFile)(process.execPath, command, { cwd: ROOT });
  return stdout;
}

it("[API10, ST1] before the coordinator has made its tables, the command makes them; wrangler keeps what is set", async () => {
  const state = temporaryFolder("stake");
  expect(await stake(state, "set", publicKey, "99.999999")).toBe(`${publicKey}  Open      99.999999\n`);
  expect(await stake(state, "list")).toMatch(new RegExp(`^${publicKey}  Open      99.999999  since 20..-..-..\n$`));
});
