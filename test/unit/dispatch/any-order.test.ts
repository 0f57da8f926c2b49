import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JobType } from "../../../src/protocol/job.ts";
import { type DispatchEvent, IllegalMove, type Settlement } from "../../../src/coordinator/dispatch/index.ts";
import { checkIndexes, checkNoneWaitsBesideAFreeWorker } from "../../simulation/indexes.ts";
import { checkShares } from "../../simulation/shares.ts";
import { Desk } from "./desk.ts";

/** One event on small names, so that they meet often; numbers are picked modulo what there is. */
type Move = (desk: Desk) => void;

const key = fc.constantFrom("a", "b", "c");
const jobId = fc.constantFrom("1", "2", "3", "4", "5");
const connId = fc.tuple(key, fc.integer({ min: 1, max: 3 })).map(([name, number]) => `${name}#${number}`);
const attempt = fc.integer({ min: 1, max: 3 });
const capabilities = fc.constantFrom<readonly JobType[]>(["TASK"], ["LLM_INFER"], ["LLM_INFER", "TASK"], []);
const tier = fc.constantFrom("Open", "Verified", "Sentinel");
const resume = fc.option(fc.array(fc.record({ jobId, attempt }), { maxLength: 3 }), { nil: undefined });
const trustedKeys = fc.subarray(["a", "b", "c"]);
const userId = fc.constantFrom("ann", "bob");
const paymentKey = fc.constantFrom("k1", "k2", "k3", "k4", "k5", "k6");
const payer = fc.constantFrom("pam", "quin", null);
const amount = fc.constantFrom("1000", "10000");
const binding = fc.constantFrom("body", "body", "body", "other");
const settlement = fc.constantFrom<Settlement>(
  { kind: "settled", transaction: "tx" },
  { kind: "refused" },
  { kind: "already_used" },
  { kind: "not_asked" },
  { kind: "unknown", lost: true },
  { kind: "unknown", lost: false },
);
const tell =
  (event: DispatchEvent): Move =>
  (desk) =>
    void desk.tell(event);

const move: fc.Arbitrary<Move> = fc.oneof(
  fc
    .record({ jobId, jobType: fc.constantFrom("LLM_INFER", "TASK"), policy: fc.constantFrom("FAST", "CHEAP"), trustedKeys, userId, open: fc.boolean() })
    .map(({ jobId: id, open, trustedKeys: keys, ...facts }): Move => (desk) => {
      // The shell knows what has ended and never submits it again.
      if (!desk.ends.has(id)) desk.submit(id, { ...facts, privacyClass: open ? "PUBLIC" : "PRIVATE", trustedKeys: open ? [] : keys });
    }),
  fc.record({ paymentKey, jobId, payer, amount, binding }).map(
    ({ paymentKey: name, jobId: id, ...facts }): Move =>
      (desk) =>
        void desk.reserve(name, id, facts),
  ),
  fc.record({ paymentKey, jobId, payer }).map(({ paymentKey: name, jobId: id, payer: who }): Move => (desk) => {
    if (!desk.ends.has(id)) desk.buy(name, id, who);
  }),
  fc.record({ paymentKey, jobId, payer, amount, binding }).map(({ paymentKey: name, jobId: id, ...facts }): Move => (desk) => {
    if (!desk.ends.has(id)) desk.pay(name, id, facts);
  }),
  fc.record({ paymentKey, jobId }).map(({ paymentKey: name, jobId: id }) => tell({ type: "release", key: name, jobId: id })),
  fc.record({ paymentKey, settlement }).map(({ paymentKey: name, settlement: it }): Move => (desk) => {
    const isUnasked = ["reserved", "held", "void unused", "void refused", "void paid_by_credit"].includes(desk.money(name));
    if (it.kind !== "settled" || !isUnasked) return void desk.settled(name, it);
    expect(() => desk.settled(name, it)).toThrow(IllegalMove);
    desk.quarantine(name);
  }),
  fc.record({ name: key, capabilities, tier, acks: fc.boolean(), context: fc.constantFrom(0, 1, 2), resume, strikes: fc.integer({ min: 0, max: 2 }) }).map(
    ({ name, resume: listed, ...options }): Move =>
      (desk) =>
        void desk.register(name, listed === undefined ? options : { ...options, resume: listed }),
  ),
  fc.record({ connId, jobId, attempt }).map((ids) => tell({ type: "ack", ...ids })),
  fc.record({ connId, jobId, attempt }).map((ids) => tell({ type: "progress", ...ids })),
  fc
    .record({ connId, jobId, attempt, retryable: fc.boolean(), cause: fc.constantFrom("worker_error", "context_length_exceeded", "output_too_large") })
    .map((ids) => tell({ type: "failed", ...ids })),
  fc.record({ connId, jobId, tooLong: fc.boolean() }).map((ids) => tell({ type: "reject", ...ids })),
  fc.record({ connId, jobId }).map((ids) => tell({ type: "oversized", ...ids })),
  fc
    .record({
      connId,
      jobId,
      attempt: fc.option(attempt, { nil: undefined }),
      verdict: fc.constantFrom("valid", "invalid_receipt", "output_too_large", "worker_error"),
    })
    .map((ids) => tell({ type: "complete", ...ids })),
  connId.map((name) => tell({ type: "disconnect", connId: name })),
  connId.map((name) => tell({ type: "heard", connId: name })),
  connId.map((name) => tell({ type: "drain", connId: name })),
  fc
    .record({ connId, capabilities, acks: fc.boolean(), context: fc.constantFrom(0, 1, 2) })
    .map(({ capabilities: list, ...rest }) => tell({ type: "update", ...rest, capabilities: new Set(list) })),
  fc.record({ key, tier }).map((it) => tell({ type: "tier", ...it })),
  fc.record({ userId, key }).map((it) => tell({ type: "paired", ...it })),
  jobId.map((id) => tell({ type: "cancel", jobId: id })),
  connId.map(
    (name): Move =>
      (desk) =>
        desk.silence(name),
  ),
  connId.map(
    (name): Move =>
      (desk) =>
        desk.hear(name),
  ),
  fc.constantFrom(1, 2_000, 5_000, 16_000, 31_000).map(
    (ms): Move =>
      (desk) =>
        void desk.pass(ms),
  ),
  fc.constant<Move>((desk) => void desk.tell({ type: "time" })),
  fc.subarray(["a", "b", "c"]).map(
    (live): Move =>
      (desk) =>
        desk.forget(live.filter((name) => desk.state.workers.has(name))),
  ),
);

describe("events in any order", () => {
  test.each([
    [true, "strict"],
    [false, "record"],
  ] as const)("[JB2] [PY6] no event throws or makes an index wrong, in any order (stake %s, receipts %s)", (stake, receiptPolicy) => {
    fc.assert(
      fc.property(fc.array(move, { maxLength: 50 }), (moves) => {
        const desk = new Desk({ stake, receiptPolicy });
        for (const it of moves) {
          it(desk);
          checkIndexes(desk.state);
          checkShares(desk.state);
          checkNoneWaitsBesideAFreeWorker(
            desk.state,
            desk.now,
            (worker) => desk.isSilent(worker.connId),
            (worker) => worker.arrivesAt,
          );
        }
        // Without anyone's help everything ends.
        for (const name of [...desk.state.keyByConn.keys()]) desk.tell({ type: "disconnect", connId: name });
        // A call that is asked for always ends.
        for (let call = 0; call < 24; call++) {
          desk.pass(200_000);
          for (const name of [...desk.state.ledger.settlingByHub]) desk.settled(name);
          checkIndexes(desk.state);
          checkShares(desk.state);
        }
        const open = [...desk.state.ledger.payments.values()].filter(({ phase }) => phase.kind !== "credit");
        expect([open.length, desk.state.ledger.timers.size, desk.state.ledger.unsettledByPayer.size]).toEqual([0, 0, 0]);
        expect([desk.state.jobs.size, desk.state.queue.jobs, desk.state.leases.size, desk.state.timers.size]).toEqual([0, 0, 0, 0]);
      }),
      { numRuns: 3_000 },
    );
  });
});
