import { spawnSync } from "node:child_process";
import { defineCommand } from "citty";
import { isPublicKey } from "../../receipt/ed25519.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { print } from "../print.ts";

const PLACE_ARGS = {
  config: { type: "string", description: "Wrangler file of the instance, such as wrangler.evm.toml", required: true },
  state: { type: "string", description: "State folder of a coordinator on this machine, as given to `npm run dev`" },
  remote: { type: "boolean", description: "The deployed database instead" },
} as const;

type Place = { config: string; state?: string | undefined; remote?: boolean | undefined };

const set = command({
  name: "stake set",
  description: "Set a worker's stake, in token units; 0 removes it [ST1]",
  args: {
    key: { type: "positional", description: "Public key of the worker, 64 hex digits", required: true },
    amount: { type: "positional", description: "Stake; 100 is Verified, 1000 Sentinel", required: true },
    ...PLACE_ARGS,
  },
  run: (args) => {
    const key = args.key.toLowerCase();
    if (!/^[0-9a-f]{64}$/.test(key) || !isPublicKey(key)) throw new CliError(EXIT.usage, "the key must be 64 hex digits of an ed25519 public key");
    if (!/^\d{1,15}(\.\d{1,6})?$/.test(args.amount)) throw new CliError(EXIT.usage, "the amount must be a number of token units, such as 100");
    const amount = Number(args.amount);
    // Both are checked to be plain digits above, so nothing of the command line can become SQL.
    if (amount === 0) execute(args, `DELETE FROM stakes WHERE provider_pubkey = '${key}'`);
    else {
      execute(
        args,
        `INSERT INTO stakes (provider_pubkey, amount, updated_at) VALUES ('${key}', ${amount}, ${Date.now()})
         ON CONFLICT (provider_pubkey) DO UPDATE SET amount = excluded.amount, updated_at = excluded.updated_at`,
      );
    }
    print(`${key} ${amount}`);
  },
});

const list = command({
  name: "stake list",
  description: "List the stakes, largest first",
  args: PLACE_ARGS,
  run: (args) => {
    for (const row of execute(args, "SELECT provider_pubkey, amount FROM stakes ORDER BY amount DESC, provider_pubkey")) {
      print(`${String(row.provider_pubkey)} ${String(row.amount)}`);
    }
  },
});

/** `compute-router stake set|list`: the operator's table of stakes, for `STAKE_SOURCE=table`. Needs wrangler in the folder it runs in. */
export const stake = defineCommand({ meta: { name: "compute-router stake", description: "The operator's table of stakes" }, subCommands: { set, list } });

/** Runs one statement by wrangler and returns its rows. */
function execute({ config, state, remote }: Place, sql: string): Record<string, unknown>[] {
  if (remote !== true && state === undefined) throw new CliError(EXIT.usage, "say where: --state FOLDER for a coordinator on this machine, or --remote");
  const where = remote === true ? ["--remote"] : ["--local", "--persist-to", state ?? ""];
  const run = spawnSync("npx", ["--no-install", "wrangler", "d1", "execute", "DB", "-c", config, ...where, "--json", "--command", sql], {
    encoding: "utf8",
    env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const answer = parse(run.stdout);
  if (run.status === 0 && answer !== null) return answer;
  const reason = (run.stderr || run.stdout || run.error?.message || "").trim().split("\n").slice(0, 6).join("\n");
  throw new CliError(EXIT.error, `wrangler could not change the database:\n${reason}`);
}

function parse(text: string | null): Record<string, unknown>[] | null {
  try {
    const answers: { results?: Record<string, unknown>[] }[] = JSON.parse((text ?? "").slice((text ?? "").indexOf("[")));
    return answers[0]?.results ?? [];
  } catch {
    return null;
  }
}
