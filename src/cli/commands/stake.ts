// `compute-router stake set|list|show`: the operator's table of stakes, which decides the tiers with STAKE_SOURCE=table. It runs wrangler.
import { defineCommand } from "citty";
import * as z from "zod";
import { tierOf } from "../../protocol/worker-messages.ts";
import { fingerprintOf, isPublicKey } from "../../receipt/ed25519.ts";
import { untrusted } from "../../protocol/text.ts";
import { CliError, command, EXIT, print, printJson } from "../command.ts";
import { assertStateExists, PLACE_ARGS, runSql } from "../d1.ts";

const Row = z.object({ provider_pubkey: z.string(), amount: z.number(), updated_at: z.number() });
/** A row of the table of stakes. `amount` in token units, `updated_at` in ms since the epoch. */
type StakeRow = z.infer<typeof Row>;

const KEY_ARG = { type: "positional", description: "Public key of the worker, 64 hex digits", required: true } as const;
const JSON_ARG = { type: "boolean", description: "One JSON object per line" } as const;

const set = command({
  name: "stake set",
  description: "Set a worker's stake, in token units; 0 removes it",
  args: {
    key: KEY_ARG,
    amount: { type: "positional", description: "Stake; 100 is Verified, 1000 Sentinel", required: true },
    ...PLACE_ARGS,
  },
  run: (args) => {
    const key = keyOf(args.key);
    const amount = amountOf(args.amount);
    // Both are checked to be plain digits, so the command line cannot inject SQL.
    if (amount === 0) runSql(args, Row, `DELETE FROM stakes WHERE provider_pubkey = '${key}'`);
    else {
      runSql(
        args,
        Row,
        `INSERT INTO stakes (provider_pubkey, amount, updated_at) VALUES ('${key}', ${amount}, ${Date.now()})
         ON CONFLICT (provider_pubkey) DO UPDATE SET amount = excluded.amount, updated_at = excluded.updated_at`,
      );
    }
    print(line(key, amount));
    process.stderr.write("a connected worker gets its tier within 5 minutes, or when it reconnects\n");
  },
});

const list = command({
  name: "stake list",
  description: "List the stakes, largest first",
  args: { ...PLACE_ARGS, json: JSON_ARG },
  run: (args) => {
    assertStateExists(args);
    const rows = runSql(args, Row, "SELECT provider_pubkey, amount, updated_at FROM stakes ORDER BY amount DESC, provider_pubkey");
    const width = Math.max(...rows.map(({ amount }) => String(amount).length));
    for (const row of rows) {
      if (args.json === true) printJson(jsonOf(row));
      else print(`${line(row.provider_pubkey, row.amount, width)}  since ${day(row.updated_at)}`);
    }
    if (rows.length === 0) process.stderr.write("no stakes: every worker is Open\n");
  },
});

const show = command({
  name: "stake show",
  description: "Show a worker's stake and which jobs it may get",
  args: { key: KEY_ARG, ...PLACE_ARGS, json: JSON_ARG },
  run: (args) => {
    const key = keyOf(args.key);
    assertStateExists(args);
    const [row] = runSql(args, Row, `SELECT provider_pubkey, amount, updated_at FROM stakes WHERE provider_pubkey = '${key}'`);
    const amount = row?.amount ?? 0;
    if (args.json === true) return printJson(jsonOf(row ?? { provider_pubkey: key, amount, updated_at: null }));
    const tier = tierOf(amount);
    print(`key    ${key}`);
    print(`words  ${fingerprintOf(key)}`);
    print(`stake  ${amount}${row === undefined ? " (no row)" : `, since ${day(row.updated_at)}`}`);
    print(`tier   ${tier}: ${tier === "Open" ? "CHEAP jobs; FAST from 100 up" : "CHEAP and FAST jobs"}; PRIVATE jobs of paired users`);
  },
});

/** `compute-router stake set|list|show`: the operator's table of stakes, for `STAKE_SOURCE=table`. Needs wrangler in the folder it runs in. */
export const stake = defineCommand({
  meta: { name: "compute-router stake", description: "The operator's table of stakes, for STAKE_SOURCE=table" },
  subCommands: { set, list, show },
});

function keyOf(text: string): string {
  const key = text.toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(key) || !isPublicKey(key)) throw new CliError(EXIT.usage, "the key must be 64 hex digits of an ed25519 public key");
  return key;
}

function amountOf(text: string): number {
  if (!/^\d{1,15}(\.\d{1,6})?$/.test(text)) throw new CliError(EXIT.usage, "the amount must be a number of token units, such as 100");
  return Number(text);
}

function line(key: string, amount: number, width = 0): string {
  return `${untrusted(key)}  ${tierOf(amount).padEnd("Sentinel".length)}  ${String(amount).padStart(width)}`;
}

function jsonOf({ provider_pubkey, amount, updated_at }: Omit<StakeRow, "updated_at"> & { updated_at: number | null }): Record<string, unknown> {
  return { provider_pubkey, amount, tier: tierOf(amount), updated_at: updated_at === null ? null : new Date(updated_at).toISOString() };
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
