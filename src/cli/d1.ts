// The database of an instance, for the commands of its operator. They run wrangler, which knows where the database is.
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { existsSync, lchownSync, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import * as z from "zod";
import { parseJson } from "../protocol/json.ts";
import { npmCommand } from "../worker/runtimes/embedded-install.ts";
import { CliError, EXIT } from "./command.ts";

/** The options that select the database. */
export const PLACE_ARGS = {
  config: { type: "string", description: "Wrangler file of the instance, such as wrangler.evm.toml", required: true },
  state: { type: "string", description: "State folder of a coordinator on this machine, as given to `npm run dev` or `npm run serve`" },
  remote: { type: "boolean", description: "Use the deployed database" },
} as const;

type Place = { config: string; state?: string | undefined; remote?: boolean | undefined };

/** Runs one statement with wrangler and returns its rows. @throws {CliError} with the message of wrangler */
export function runSql<T>({ config, state, remote }: Place, row: z.ZodType<T>, sql: string): T[] {
  if ((remote === true) === (state !== undefined))
    throw new CliError(EXIT.usage, "select the database: --state FOLDER for a coordinator on this machine, or --remote");
  if (!existsSync(config))
    throw new CliError(EXIT.usage, `there is no file ${config}; --config must be the wrangler file of the instance, such as wrangler.evm.toml`);
  const where = state === undefined ? ["--remote"] : ["--local", "--persist-to", state];
  const execute = () => wrangler(["execute", "DB", "-c", config, ...where, "--json", "--command", sql]);
  let run = execute();
  // A coordinator that runs on this machine may be writing to the same file.
  for (let pause = 100; pause <= 1_600 && run.status !== 0 && isLocked(run); pause *= 2) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
    run = execute();
  }
  // A coordinator creates its tables at the first statement that needs one. Before that, wrangler creates the same tables.
  if (
    run.status !== 0 &&
    `${run.stdout}${run.stderr}`.includes("no such table") &&
    wrangler(["migrations", "apply", "DB", "-c", config, ...where]).status === 0
  ) {
    run = execute();
  }
  if (state !== undefined) giveToOwner(state);
  const answer = z
    .tuple([z.object({ results: z.array(row).default([]) })])
    .rest(z.unknown())
    .safeParse(read(run.stdout));
  if (run.status === 0 && answer.success) return answer.data[0].results;
  const said = stripVTControlCharacters(run.stderr || run.stdout || run.error?.message || "");
  const reason = said.trim().split("\n").slice(0, 6).join("\n");
  throw new CliError(EXIT.error, `wrangler could not use the database:\n${reason}`);
}

/** For commands that read what is stored: wrangler would create a database in a folder whose name is mistyped. @throws {CliError} */
export function assertStateExists({ state, remote }: Place): void {
  if (state === undefined || remote === true) return;
  if (!existsSync(state)) throw new CliError(EXIT.usage, `there is no folder ${state} that you may read; --state must be the state folder of the coordinator`);
  if (!existsSync(join(state, "v3", "d1")))
    throw new CliError(EXIT.usage, `there is no database of a coordinator in ${state} that you may read; --state must be its state folder`);
}

/** Gives what root has created in a state folder to the owner of the folder: the coordinator runs as that user, and could not write it. */
function giveToOwner(state: string): void {
  if (process.getuid?.() !== 0 || !existsSync(state)) return;
  const { uid, gid } = lstatSync(state);
  if (uid === 0) return;
  for (const name of readdirSync(state, { recursive: true, encoding: "utf8" })) {
    const path = join(state, name);
    // A coordinator that runs may have removed it meanwhile.
    if (lstatSync(path, { throwIfNoEntry: false })?.uid === 0) lchownSync(path, uid, gid);
  }
}

function isLocked({ stdout, stderr }: SpawnSyncReturns<string>): boolean {
  return `${stdout}${stderr}`.includes("database is locked");
}

/** Runs wrangler to its end. That takes seconds, so a person sees what the command waits for. */
function wrangler(args: readonly string[]): SpawnSyncReturns<string> {
  const { isTTY } = process.stderr;
  if (isTTY) process.stderr.write("waiting for wrangler, which uses the database …");
  const [file, ...first] = npmCommand("npx");
  const run = spawnSync(file, [...first, "--no-install", "wrangler", "d1", ...args], {
    encoding: "utf8",
    env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (isTTY) process.stderr.write("\r\u001B[K");
  return run;
}

/** The JSON after wrangler's own lines; undefined if there is none. */
function read(output: string | null): unknown {
  return parseJson((output ?? "").slice((output ?? "").indexOf("[")));
}

/** A text inside an SQL statement. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
