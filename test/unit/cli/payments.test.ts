// `compute-router payments` on a wrangler whose `d1 execute` costs no 3 s of CPU. test/e2e/stake-cli.test.ts runs the real one.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/coordinator/store/migrations.ts";
import { payments } from "../../../src/coordinator/store/schema.ts";
import { keyPair } from "../../../src/receipt/index.ts";
import { PRETENDED_WRANGLER, usedState } from "../../support/pretended-wrangler.ts";
import { runHere } from "../worker/support/cli-here.ts";

const KEY = `eip155:10143:0x${"aa".repeat(20)}:0x${"bb".repeat(20)}:0x${"01".repeat(32)}`;
const SPENT = KEY.replace(/01$/, "02");
const SVM = "cd".repeat(32);
const JOB = "7f9c24e8-3b12-4fef-91d0-1c3a5b7d9e11";
const AT = 1_790_000_000_000;

function database(state: string): DatabaseSync {
  const db = new DatabaseSync(join(state, "d1.sqlite"));
  for (const { statements } of MIGRATIONS) for (const statement of statements) db.exec(statement);
  const insert = db.prepare(
    "INSERT INTO payments (key, rev, state, reason, job_id, payer, asset, amount, settlement, updated_at) VALUES (?, 1, ?, ?, ?, ?, 'eip155:10143/0xbb', '1000', ?, ?)",
  );
  insert.run(KEY, "unresolved", "expired", JOB, "0xaa", null, AT);
  insert.run(SVM, "unresolved", "already_used", "8".repeat(8) + JOB.slice(8, -8) + "8".repeat(8), null, null, AT - 1);
  insert.run(SPENT, "spent", null, JOB, "0xaa", "0xdd", AT);
  return db;
}

test("[PY8] the operator lists and shows payments, and orders what becomes of those in doubt", async () => {
  const state = usedState();
  const db = database(state);
  writeFileSync(join(state, "npx"), PRETENDED_WRANGLER, { mode: 0o755 });
  const env = { PATH: [state, process.env["PATH"]].join(delimiter) };
  const command = (args: string[]) => runHere(["payments", ...args, "--config", "wrangler.evm.toml", "--state", state], { env });
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await command(args);
    expect([code, code === 0 ? "" : stderr]).toEqual([0, ""]);
    return stdout;
  };
  const refused = async (...args: string[]) => (await command(args)).stderr;

  const listed = (await run("list")).trimEnd().split("\n");
  expect(listed).toEqual([
    expect.stringContaining(SVM),
    `${new Date(AT).toISOString()}  unresolved (expired)  1000 eip155:10143/0xbb  payer 0xaa  job ${JOB}  ${KEY}`,
  ]);
  expect(await run("list", "--phase", "spent")).toContain(SPENT);
  expect(await run("list", "--phase", "credit")).toBe("");
  // Every phase that the coordinator copies to D1 can be asked for.
  expect(await refused("list", "--phase", "any")).toContain(payments.state.enumValues.join(", "));
  expect(JSON.parse(await run("list", "--phase", "spent", "--json"))).toMatchObject({ key: SPENT, state: "spent", settlement: "0xdd", amount: "1000" });

  const reason = "no transfer on the chain; it's expired', 0); DROP TABLE payments; --";
  const ordered = await run("void", JOB, "--reason", reason);
  expect(ordered).toMatch(new RegExp(`^[0-9a-f-]{36}  void  ${KEY}\n$`));
  await run("credit", SVM.toUpperCase(), "--reason", "seen in a block");
  const orders = db.prepare("SELECT * FROM payment_orders ORDER BY verb DESC").all();
  expect(orders).toMatchObject([
    { payment_key: KEY, verb: "void", reason, done_at: null, outcome: null, id: ordered.slice(0, 36) },
    { payment_key: SVM, verb: "credit", reason: "seen in a block" },
  ]);
  expect(await run("show", KEY)).toContain(`void, waits for the coordinator: ${reason}`);
  db.exec(`UPDATE payment_orders SET done_at = ${AT}, outcome = 'done'`);
  expect(await run("show", KEY)).toContain(`phase        unresolved (expired)\n`);
  expect(JSON.parse(await run("show", KEY, "--json"))).toMatchObject({
    key: KEY,
    orders: [{ verb: "void", reason, outcome: "done", done_at: new Date(AT).toISOString() }],
  });
  // The job has two payments; the spent one is not in doubt.
  expect((await run("show", JOB)).match(/^payment/gm)).toHaveLength(2);
  // As the log names the job, or as an earlier one did. An order needs the whole id.
  expect(await run("show", JOB.slice(-8))).toBe(await run("show", JOB));
  expect(await run("show", JOB.slice(0, 8))).toBe(await run("show", JOB));
  expect(await refused("void", JOB.slice(-8), "--reason", "x")).toContain("must be its key or the id of its job");

  expect(await refused("void", SPENT, "--reason", "x")).toContain("the payment is spent: an order is possible only for an unresolved payment");
  expect(await refused("credit", SVM.replace("cd", "00"), "--reason", "x")).toContain("there is no such payment");
  db.close();
});

test("[PY8] the operator is told what is not there, what an order waits for, and which of several payments an order would be for", async () => {
  const state = usedState();
  const db = database(state);
  db.exec("UPDATE payments SET settlement = '0xdd' || char(27) || '[31m' WHERE state = 'spent'");
  writeFileSync(join(state, "npx"), PRETENDED_WRANGLER, { mode: 0o755 });
  const env = { PATH: [state, process.env["PATH"]].join(delimiter) };
  const run = (...args: string[]) => runHere(["payments", ...args, "--config", "wrangler.evm.toml", "--state", state], { env });

  expect(await run("list", "--phase", "credit")).toEqual({ code: 0, stdout: "", stderr: "no payment is credit\n" });
  // One line of JSON for each payment, so no payment is no line.
  expect(await run("list", "--phase", "credit", "--json")).toEqual({ code: 0, stdout: "", stderr: "no payment is credit\n" });
  const unknown = { code: 1, stdout: "", stderr: "there is no such payment; a payment that is being verified is not shown\n" };
  expect(await run("show", SVM.replace("cd", "00"))).toEqual(unknown);
  const { stdout: spent } = await run("show", SPENT);
  expect(spent).toContain("payer        0xaa\n");
  expect(spent).toContain("transaction  0xdd\\u001b[31m\n");
  // The money has moved, and nobody told by which transaction.
  db.exec("UPDATE payments SET settlement = '' WHERE state = 'spent'");
  expect((await run("show", SPENT)).stdout).toContain("transaction  unknown\n");
  expect((await run("show", KEY)).stdout).toContain("transaction  none\n");
  expect(await run("void", KEY, "--reason", " first ")).toMatchObject({
    stderr: "the coordinator carries this out within 5 minutes; then `payments show` prints the outcome\n",
  });
  expect(JSON.parse((await run("show", KEY, "--json")).stdout)).toMatchObject({ orders: [{ reason: "first", done_at: null, outcome: null }] });
  db.exec(`UPDATE payment_orders SET created_at = ${AT}`);
  await run("credit", KEY, "--reason", "second");
  expect((await run("show", KEY)).stdout.match(/first|second/g)).toEqual(["first", "second"]);

  db.exec(`UPDATE payments SET job_id = '${JOB}', updated_at = CASE key WHEN '${SVM}' THEN 2 ELSE 1 END`);
  expect((await run("list")).stdout.split("\n").map((line) => line.split("  ").at(-1))).toEqual([KEY, SVM, ""]);
  const several = { code: 2, stdout: "", stderr: "this job has several payments in doubt; give the key of one\n" };
  expect(await run("void", JOB, "--reason", "x")).toEqual(several);
  db.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)
    INSERT INTO payments (key, rev, state, job_id, asset, amount, updated_at) SELECT 'k' || i, 1, 'unresolved', '${JOB}', 'a', '1', 0 FROM n`);
  const { stdout, stderr } = await run("list");
  expect([stdout.trimEnd().split("\n").length, stderr]).toEqual([1_000, "only the first 1000 are shown\n"]);
  db.close();
});

test("with --remote the deployed database is asked, and no statement counts that wrangler could not run", async () => {
  const folder = usedState();
  const env = { PATH: [folder, process.env["PATH"]].join(delimiter) };
  const list = (script: string) => {
    writeFileSync(join(folder, "npx"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    return runHere(["payments", "list", "--config", "wrangler.svm.toml", "--remote"], { env });
  };
  const asked = join(folder, "asked");
  expect(await list(`echo "$@" > '${asked}'; echo '[{"results":[]}]'`)).toMatchObject({ code: 0 });
  expect(readFileSync(asked, "utf8")).toMatch(/^--no-install wrangler d1 execute DB -c wrangler\.svm\.toml --remote --json --command SELECT /);
  expect(await list(`echo '[{"results":[]}]'; exit 1`)).toMatchObject({ code: 1, stderr: expect.stringContaining("wrangler could not use the database") });
  for (const place of [[], ["--remote", "--state", folder]]) {
    const unclear = await runHere(["payments", "list", "--config", "wrangler.svm.toml", ...place], { env });
    expect(unclear).toMatchObject({ code: 2, stderr: expect.stringContaining("select the database: --state FOLDER") });
  }
});

test("[PY8] a database that the coordinator is writing to is asked again", async () => {
  const state = usedState();
  database(state).close();
  const locked = `const fs = process.getBuiltinModule("node:fs");
if (!fs.existsSync(${JSON.stringify(join(state, "asked"))})) {
  fs.writeFileSync(${JSON.stringify(join(state, "asked"))}, "");
  console.log(JSON.stringify({ error: { text: "database is locked: SQLITE_BUSY" } }));
  process.exit(1);
}`;
  writeFileSync(join(state, "npx"), PRETENDED_WRANGLER.replace("\n", `\n${locked}\n`), { mode: 0o755 });
  const env = { PATH: [state, process.env["PATH"]].join(delimiter) };
  const { code, stdout } = await runHere(["payments", "list", "--config", "wrangler.evm.toml", "--state", state], { env });
  expect([code, stdout.split("\n").filter(Boolean).length]).toEqual([0, 2]);
});

test("[PY8] a folder that does not exist is refused, and not made with an empty ledger in it; what wrangler says has no colors", async () => {
  const state = usedState();
  writeFileSync(join(state, "npx"), "#!/bin/sh\nprintf '\\033[31mCould not read file\\033[0m' >&2; exit 1\n", { mode: 0o755 });
  const env = { PATH: [state, process.env["PATH"]].join(delimiter) };
  const list = (folder: string) => runHere(["payments", "list", "--config", "wrangler.evm.toml", "--state", folder], { env });
  const missing = join(state, "typo");
  expect(await list(missing)).toMatchObject({
    code: 2,
    stderr: `there is no folder ${missing} that you may read; --state must be the state folder of the coordinator\n`,
  });
  const stake = (folder: string, ...args: string[]) => runHere(["stake", ...args, "--config", "wrangler.evm.toml", "--state", folder], { env });
  const key = keyPair(new Uint8Array(32).fill(1)).publicKey;
  // The folder above that of the instance.
  mkdirSync(join(missing, "evm"), { recursive: true });
  const elsewhere = { code: 2, stderr: `there is no database of a coordinator in ${missing} that you may read; --state must be its state folder\n` };
  for (const read of [list(missing), stake(missing, "list"), stake(missing, "show", key)]) expect(await read).toMatchObject(elsewhere);
  // The operator may set stakes before the first start.
  const failed = { code: 1, stderr: "wrangler could not use the database:\nCould not read file\n" };
  expect(await stake(missing, "set", key, "5")).toMatchObject(failed);
  expect(await list(state)).toMatchObject(failed);
});
