import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import * as z from "zod";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Options that say which database is meant. */
export const PLACE_ARGS = {
  config: { type: "string", description: "Wrangler file of the instance, such as wrangler.evm.toml", required: true },
  state: { type: "string", description: "State folder of a coordinator on this machine, as given to `npm run dev`" },
  remote: { type: "boolean", description: "The deployed database instead" },
} as const;

const Row = z.object({ provider_pubkey: z.string(), amount: z.number(), updated_at: z.number() });
/** A row of the table of stakes. `amount` in token units, `updated_at` in ms since the epoch. */
export type StakeRow = z.infer<typeof Row>;

const Answer = z.tuple([z.object({ results: z.array(Row).default([]) })]).rest(z.unknown());

/** Runs one statement by wrangler and returns its rows. @throws {CliError} with what wrangler said */
export function runSql({ config, state, remote }: { config: string; state?: string | undefined; remote?: boolean | undefined }, sql: string): StakeRow[] {
  if ((remote === true) === (state !== undefined))
    throw new CliError(EXIT.usage, "say which database: --state FOLDER for a coordinator on this machine, or --remote");
  const where = state === undefined ? ["--remote"] : ["--local", "--persist-to", state];
  const execute = () => wrangler(["execute", "DB", "-c", config, ...where, "--json", "--command", sql]);
  let run = execute();
  // A coordinator makes its tables at the first statement that needs one: before that, wrangler makes the same.
  if (
    run.status !== 0 &&
    `${run.stdout}${run.stderr}`.includes("no such table") &&
    wrangler(["migrations", "apply", "DB", "-c", config, ...where]).status === 0
  ) {
    run = execute();
  }
  const answer = Answer.safeParse(read(run.stdout));
  if (run.status === 0 && answer.success) return answer.data[0].results;
  const reason = (run.stderr || run.stdout || run.error?.message || "").trim().split("\n").slice(0, 6).join("\n");
  throw new CliError(EXIT.error, `wrangler could not use the database:\n${reason}`);
}

function wrangler(args: readonly string[]): SpawnSyncReturns<string> {
  return spawnSync("npx", ["--no-install", "wrangler", "d1", ...args], {
    encoding: "utf8",
    env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** What stands after wrangler's own lines. */
function read(output: string | null): unknown {
  try {
    return JSON.parse((output ?? "").slice((output ?? "").indexOf("[")));
  } catch {
    return null;
  }
}
