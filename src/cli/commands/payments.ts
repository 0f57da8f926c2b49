// `compute-router payments list|show|credit|void`: what the ledger knows of the payments, and the operator's orders about those that are in doubt [PY8].
import { randomUUID } from "node:crypto";
import { defineCommand } from "citty";
import * as z from "zod";
import { isPrintable, untrusted } from "../../protocol/text.ts";
import { CliError, command, EXIT, print, printJson } from "../command.ts";
import { assertStateExists, PLACE_ARGS, quoted, runSql } from "../d1.ts";

/** The phases as the table of payments names them: a copy, because the command line imports nothing of the coordinator. A test compares them. */
const PHASES = ["held", "settling", "unknown", "unresolved", "settled", "covered", "credit", "spent", "void"] as const;

/** A row of the copy of the ledger. Amounts in atomic units, times in ms since the epoch. */
const Row = z.object({
  key: z.string(),
  state: z.string(),
  reason: z.string().nullable(),
  job_id: z.string(),
  payer: z.string().nullable(),
  asset: z.string(),
  amount: z.string(),
  settlement: z.string().nullable(),
  updated_at: z.number(),
});
type PaymentRow = z.infer<typeof Row>;
const COLUMNS = Object.keys(Row.shape).join(", ");

const Order = z.object({
  id: z.string(),
  verb: z.string(),
  reason: z.string(),
  created_at: z.number(),
  done_at: z.number().nullable(),
  outcome: z.string().nullable(),
});

const PAYMENT_ARG = { type: "positional", description: "Key of the payment, or id of its job", required: true } as const;
const JSON_ARG = { type: "boolean", description: "One JSON object per line" } as const;
const REASON_ARG = { type: "string", description: "The reason, for your records, such as what you have seen on the chain", required: true } as const;

/** The most rows that one `list` prints. */
const MOST = 1_000;

const list = command({
  name: "payments list",
  description: "List the payments of a phase, oldest first; by default those in doubt whose jobs have ended",
  args: { ...PLACE_ARGS, phase: { type: "enum", options: [...PHASES], default: "unresolved", description: "Phase of the payments" }, json: JSON_ARG },
  run: (args) => {
    assertStateExists(args);
    const phase = PHASES.find((known) => known === args.phase) ?? "unresolved";
    const rows = runSql(args, Row, `SELECT ${COLUMNS} FROM payments WHERE state = ${quoted(phase)} ORDER BY updated_at, key LIMIT ${MOST}`);
    for (const row of rows) {
      if (args.json === true) printJson(jsonOf(row));
      else
        print(
          untrusted(`${timeOf(row.updated_at)}  ${phaseOf(row)}  ${row.amount} ${row.asset}  payer ${row.payer ?? "unknown"}  job ${row.job_id}  ${row.key}`),
        );
    }
    if (rows.length === 0) process.stderr.write(`no payment is ${phase}\n`);
    if (rows.length === MOST) process.stderr.write(`only the first ${MOST} are shown\n`);
  },
});

const show = command({
  name: "payments show",
  description: "Show a payment and the orders about it",
  args: {
    payment: { ...PAYMENT_ARG, description: "Key of the payment, id of its job, or the last 8 characters of that id, as in the log" },
    ...PLACE_ARGS,
    json: JSON_ARG,
  },
  run: (args) => {
    const rows = find(args, args.payment, JOB_IN_LOG);
    if (rows.length === 0) throw new CliError(EXIT.error, "there is no such payment; a payment that is being verified is not shown");
    for (const row of rows) {
      const query = `SELECT id, verb, reason, created_at, done_at, outcome FROM payment_orders WHERE payment_key = ${quoted(row.key)} ORDER BY created_at, id`;
      const orders = runSql(args, Order, query);
      if (args.json === true) {
        const shown = orders.map(({ created_at, done_at, ...order }) => ({
          ...order,
          created_at: timeOf(created_at),
          done_at: done_at === null ? null : timeOf(done_at),
        }));
        printJson({ ...jsonOf(row), orders: shown });
        continue;
      }
      const lines = {
        payment: row.key,
        phase: phaseOf(row),
        amount: `${row.amount} atomic units of ${row.asset}`,
        payer: row.payer ?? "unknown",
        job: row.job_id,
        // Empty: the money has moved, but nobody told by which transaction.
        transaction: row.settlement === "" ? "unknown" : (row.settlement ?? "none"),
        updated: timeOf(row.updated_at),
      };
      for (const [name, value] of Object.entries(lines)) print(`${name.padEnd("transaction".length)}  ${untrusted(value)}`);
      for (const { id, verb, reason, created_at, outcome } of orders)
        print(untrusted(`order        ${timeOf(created_at)}  ${verb}, ${outcome ?? "waits for the coordinator"}: ${reason}  (${id})`));
    }
  },
});

const credit = command({
  name: "payments credit",
  description: "Order that a payment in doubt becomes a credit: its money has moved",
  args: { payment: PAYMENT_ARG, reason: REASON_ARG, ...PLACE_ARGS },
  run: (args) => order(args, "credit"),
});

const voidPayment = command({
  name: "payments void",
  description: "Order that a payment in doubt is void: its money has not moved and cannot move any more",
  args: { payment: PAYMENT_ARG, reason: REASON_ARG, ...PLACE_ARGS },
  run: (args) => order(args, "void"),
});

/** `compute-router payments list|show|credit|void`: the operator's view of the ledger. Needs wrangler in the folder it runs in. */
export const payments = defineCommand({
  meta: { name: "compute-router payments", description: "The payments of an instance, for its operator: what is in doubt, and decisions about it" },
  subCommands: { list, show, credit, void: voidPayment },
});

type Place = Parameters<typeof runSql>[0];

function order(args: Place & { payment: string; reason: string }, verb: "credit" | "void"): void {
  const reason = args.reason.trim();
  if (reason === "" || [...reason].length > 200 || !isPrintable(reason)) throw new CliError(EXIT.usage, "--reason must be 1 to 200 printable characters");
  const rows = find(args, args.payment);
  const [row, another] = rows.filter(({ state }) => state === "unresolved");
  if (row === undefined) {
    const known = rows.map(phaseOf).join(", ");
    throw new CliError(
      EXIT.error,
      known === "" ? "there is no such payment" : `the payment is ${untrusted(known)}: an order is possible only for an unresolved payment`,
    );
  }
  if (another !== undefined) throw new CliError(EXIT.usage, "this job has several payments in doubt; give the key of one");
  const id = randomUUID();
  const values = `${[id, row.key, verb, reason].map(quoted).join(", ")}, ${Date.now()}`;
  runSql(args, z.unknown(), `INSERT INTO payment_orders (id, payment_key, verb, reason, created_at) VALUES (${values})`);
  print(`${id}  ${verb}  ${untrusted(row.key)}`);
  process.stderr.write("the coordinator carries this out within 5 minutes; then `payments show` prints the outcome\n");
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** `network:asset:from:nonce` of an EVM payment, in lower case, or the SHA-256 of an SVM transaction's message [PY6]. */
const KEY = /^([-a-z0-9]{3,8}:[-_a-z0-9]{1,32}:0x[0-9a-f]{40}:0x[0-9a-f]{40}:0x[0-9a-f]{64}|[0-9a-f]{64})$/;

/** How the coordinator's log names a job: by the end of its id. Earlier ones named the beginning. */
const JOB_IN_LOG = /^[0-9a-f]{8}$/;

/** The payments with this key, or of this job, or of the jobs with this short form. All forms are checked, so the command line cannot inject SQL. */
function find(place: Place, given: string, short?: RegExp): PaymentRow[] {
  const text = given.trim().toLowerCase();
  const isShort = short?.test(text) === true;
  if (!isShort && !UUID.test(text) && !KEY.test(text)) throw new CliError(EXIT.usage, "the payment must be its key or the id of its job");
  assertStateExists(place);
  const read = (wanted: string) => runSql(place, Row, `SELECT ${COLUMNS} FROM payments WHERE ${wanted} ORDER BY updated_at, key`);
  if (!isShort) return read(`${UUID.test(text) ? "job_id" : "key"} = ${quoted(text)}`);
  const ending = read(`job_id LIKE '%${text}'`);
  return ending.length > 0 ? ending : read(`job_id LIKE '${text}%'`);
}

function phaseOf({ state, reason }: PaymentRow): string {
  return reason === null ? state : `${state} (${reason})`;
}

function jsonOf({ updated_at, ...row }: PaymentRow): Record<string, unknown> {
  return { ...row, updated_at: timeOf(updated_at) };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
