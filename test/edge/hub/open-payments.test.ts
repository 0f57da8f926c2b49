import { expect, test } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import type { Payment } from "../../../src/coordinator/dispatch/index.ts";
import { LedgerStore } from "../../../src/coordinator/hub/ledger-store.ts";
import { TestHub } from "../support/worker-hub.ts";

const NOW = 100 * TIMING.parkHalving;
const RECENT = NOW - TIMING.failedClaims;
const OLD = NOW - 2 * TIMING.parkHalving;
const CREDIT = JSON.stringify({ left: "1", lent: "0", since: 1, transaction: "tx" });
const LENT = JSON.stringify({ left: "0", lent: "1", since: 1, transaction: "tx" });

const PHASES: readonly Payment["phase"][] = [
  { kind: "reserved", until: NOW },
  { kind: "held" },
  { kind: "settling", until: NOW, by: "request" },
  { kind: "unknown", retryDue: NOW },
  { kind: "settled", transaction: "tx" },
  { kind: "credit", transaction: "tx" },
  { kind: "covered", transaction: "tx", parts: [], own: null },
  { kind: "spent", transaction: "tx" },
  { kind: "void", reason: "unused" },
  { kind: "unresolved", reason: "expired", retryDue: NOW },
  { kind: "unresolved", reason: "expired", retryDue: null },
  ...[RECENT, OLD].flatMap((assumedAt): Payment["phase"][] => [
    { kind: "settled", transaction: "tx", assumedAt },
    { kind: "spent", transaction: "tx", assumedAt },
    { kind: "unresolved", reason: "assumed", retryDue: null, assumedAt },
    { kind: "void", reason: "by_operator", assumedAt },
  ]),
];

/** Each phase without a credit, with one that waits and with one that is lent, and with every time, and the keys of those that a hub needs in its memory. */
function table(): { rows: (string | number | null)[][]; open: string[] } {
  const rows: (string | number | null)[][] = [];
  const open: string[] = [];
  for (const phase of PHASES)
    for (const updatedAt of [RECENT, OLD])
      for (const credit of [null, CREDIT, LENT])
        for (const streamedAt of [null, RECENT, OLD]) {
          const key = `key ${rows.length}`;
          rows.push([key, key, JSON.stringify(phase), phase.kind, updatedAt, credit, streamedAt]);
          const isDone = ["credit", "spent", "void"].includes(phase.kind) || (phase.kind === "unresolved" && phase.retryDue === null);
          const isAssumed = "assumedAt" in phase && phase.assumedAt === RECENT && updatedAt === RECENT;
          if (!isDone || isAssumed || credit === LENT || streamedAt === RECENT) open.push(key);
        }
  return { rows, open };
}

test("[PY6] a hub that wakes up reads the payments that are not done, by their indexes: the others cost it nothing", async () => {
  const hub = new TestHub();
  await hub.stub.workersOnline();
  const { rows, open } = table();
  const seen = await hub.inside((_, { storage }) => {
    const insert = `INSERT INTO payments (key, job_id, phase, kind, updated_at, credit, streamed_at, digest, binding, amount, expires_at, doubts)
      VALUES (?, ?, ?, ?, ?, ?, ?, 'd', 'b', '1', 1, 0)`;
    for (const row of rows) storage.sql.exec(insert, ...row);
    const plans: string[] = [];
    const explained = new Proxy(storage.sql, {
      get: (sql, member) =>
        member === "exec"
          ? (query: string, ...values: unknown[]) => {
              plans.push(
                ...sql
                  .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, ...values)
                  .toArray()
                  .map(({ detail }) => detail),
              );
              return sql.exec(query, ...values);
            }
          : Reflect.get(sql, member),
    });
    const { payments, damaged } = new LedgerStore(explained, "network").open(NOW);
    return { keys: payments.map(({ key }) => key), damaged, plans };
  });
  expect([seen.keys.toSorted(), seen.damaged]).toEqual([open.toSorted(), []]);
  // A partial index may be read from its beginning to its end: it has only rows that are needed, and those in doubt.
  const scans = seen.plans.filter((step) => step.startsWith("SCAN payments") && !/USING (COVERING )?INDEX payments_(open|lent|unresolved)$/.test(step));
  expect([scans, seen.plans.length > 0]).toEqual([[], true]);
});

const PAYMENT: Payment = {
  ...{ key: "key", digest: "digest", binding: "binding", payer: null, asset: "asset", amount: "1", expiresAt: 1, jobId: "job", doubts: 0, lostAnswer: false },
  phase: { kind: "held" },
};
const CHANGES: readonly Partial<Payment>[] = [
  { jobId: "another" },
  { payer: "payer" },
  { credit: { left: "1", lent: "0", since: 1, transaction: "tx" } },
  { streamedAt: 1 },
  { doubts: 1 },
  { lostAnswer: true },
  { phase: { kind: "settled", transaction: "tx" } },
  { jobId: "another", phase: { kind: "settling", until: 1 } },
];

test.each(CHANGES)("[PY6] a payment that has changed by %o is read as it was saved, with its texts for as long as they are needed", async (change) => {
  const hub = new TestHub();
  await hub.stub.workersOnline();
  const changed = { ...PAYMENT, ...change };
  const texts = { payload: "payload", requirements: "requirements" };
  const seen = await hub.inside((_, { storage }) => {
    const ledger = new LedgerStore(storage.sql, "network");
    ledger.save({ ...PAYMENT, phase: { kind: "reserved", until: 1 } }, {}, 1);
    const reserved = ledger.find("key");
    ledger.save(PAYMENT, texts, 2);
    const first = [ledger.find("key"), ledger.settleTexts("key")];
    ledger.save(changed, {}, 3);
    return { reserved, first, second: [ledger.find("key"), ledger.settleTexts("key")], copies: ledger.uncopied(2) };
  });
  expect(seen).toEqual({
    reserved: null,
    first: [PAYMENT, texts],
    second: [changed, changed.phase.kind === "settled" ? null : texts],
    copies: [{ ...changed, rev: 2, updatedAt: 3 }],
  });
});
