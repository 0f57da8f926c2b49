import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import type { Reduced, Settlement } from "../../../src/coordinator/dispatch/index.ts";
import { Desk, words } from "./desk.ts";

const REFUSED: Settlement = { kind: "refused" };
const USED: Settlement = { kind: "already_used" };
const LOST: Settlement = { kind: "unknown", lost: true };
/** Unknown, as a facilitator says it: this a payer can bring about. */
const SAID: Settlement = { kind: "unknown", lost: false };
const BUSY: Settlement = { kind: "not_asked" };
const fails = (desk: Desk, connId: string, jobId: string) => desk.tell({ type: "failed", connId, jobId, attempt: 1, retryable: false });
const completes = (desk: Desk, connId: string, jobId: string) => desk.tell({ type: "complete", connId, jobId, attempt: undefined, verdict: "valid" });

/** Payment `key` pays for job `id`, of which `w` sends text until its total time is over. */
function streamToDeadline(desk: Desk, key: string, id: string, payer = "pam"): void {
  desk.pay(key, id, { amount: "1000000", payer });
  if (desk.money(key) === "settling") desk.settled(key);
  for (let n = 0; n < 10; n++) {
    desk.tell({ type: "progress", connId: desk.state.workers.get("w")?.connId ?? "", jobId: id, attempt: 1 });
    desk.pass(20_000);
  }
  expect(desk.where(id)).toBe("failed deadline_exceeded");
}

/** A desk where `w` is kept for the paid job `j`, and payment `k` is being settled. */
function settling(): Desk {
  const desk = new Desk();
  desk.register("w");
  desk.pay("k", "j");
  return desk;
}

/** The worker acknowledges `j`, and then its connection is gone. */
function dropAfterAck(desk: Desk): void {
  desk.tell({ type: "ack", connId: "w#1", jobId: "j", attempt: 1 });
  desk.tell({ type: "disconnect", connId: "w#1" });
}

/** The same, and its grace time is over. */
function loseAfterAck(desk: Desk): void {
  dropAfterAck(desk);
  desk.pass(TIMING.grace);
}

/** The same, after `w` ran it and failed: `k` is a credit, of 1000 unless it is said otherwise. */
function withCredit({ amount = "1000" } = {}): Desk {
  const desk = new Desk();
  desk.register("w");
  desk.pay("k", "j", { amount });
  desk.settled("k");
  fails(desk, "w#1", "j");
  return desk;
}

/** The same, but its outcome is unknown, its authorization has expired, and its job has failed. */
function unresolved(): Desk {
  const desk = new Desk();
  desk.register("w");
  desk.pay("k", "j", { expiresAt: desk.now + 5_000 });
  desk.pass(20_000);
  desk.settled("k", LOST);
  return desk;
}

describe("before anyone is asked", () => {
  test("[PY5] a reservation is dropped after 60 s, and the same payment may come again", () => {
    const desk = new Desk();
    expect(words(desk.reserve("k", "j"))).toBe("reserved");
    expect(words(desk.pass(TIMING.reservation - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("drop k");
    expect(words(desk.buy("k", "j"))).toBe("reservation_lost");
    expect(words(desk.reserve("k", "again"))).toBe("reserved");
  });

  test("[PY5] a payment that was not verified leaves nothing in the ledger", () => {
    const desk = new Desk();
    desk.reserve("k", "j");
    expect(words(desk.tell({ type: "release", key: "k", jobId: "j" }))).toBe("drop k");
    expect([desk.money("k"), desk.state.ledger.timers.size]).toEqual(["gone", 0]);
  });

  test("[PY5] a release that comes late does not undo a submit", () => {
    const desk = settling();
    expect(words(desk.tell({ type: "release", key: "k", jobId: "j" }))).toBe("");
    expect(desk.money("k")).toBe("settling");
  });

  test("[PY5] PRIVATE without a paired worker and a full queue are refused before the ledger is touched", () => {
    const desk = new Desk();
    const refused = desk.reserve("k", "j", {}, { privacyClass: "PRIVATE" });
    expect(words(refused)).toBe("no_trusted_worker");
    expect(refused.rows).toMatchObject([
      { type: "insert", job: { id: "j" } },
      { type: "ended", jobId: "j", started: false },
    ]);
    expect(words(desk.reserve("k", "j", {}, { payloadBytes: LIMITS.queuedPayloadBytes + 1 }))).toBe("queue_full");
    expect(desk.money("k")).toBe("gone");
  });

  test("[PY5] the paired worker leaves, or the queue fills, while the payment is verified: the reservation goes too", () => {
    const desk = new Desk();
    const secret = { privacyClass: "PRIVATE", trustedKeys: ["w"] } as const;
    desk.register("w");
    desk.reserve("k", "j", {}, secret);
    desk.tell({ type: "disconnect", connId: "w#1" });
    expect(words(desk.buy("k", "j", "pam", secret))).toBe("drop k, no_trusted_worker");
    expect(desk.where("j")).toBe("failed no_trusted_worker");
    desk.reserve("l", "full");
    expect(words(desk.buy("l", "full", "pam", { payloadBytes: LIMITS.queuedPayloadBytes + 1 }))).toBe("drop l, queue_full");
  });

  test("[PY5] a reservation that comes twice, because its answer was lost, is the same one", () => {
    const desk = new Desk();
    for (let n = 0; n < 2; n++) expect(words(desk.reserve("k", "j"))).toBe("reserved");
  });

  test("[PY6] of two requests at once with the same payment the second waits and then gets the job of the first", () => {
    const desk = new Desk();
    desk.reserve("k", "j");
    expect(words(desk.reserve("k", "second"))).toBe("busy");
    expect(words(desk.buy("k", "second"))).toBe("reservation_lost");
    desk.buy("k", "j");
    expect(words(desk.reserve("k", "second"))).toBe("known j");
  });

  test("[PY6] a submit whose reservation has ended does not get the job of a later request that reserved the same payment", () => {
    const desk = new Desk();
    desk.reserve("k", "j");
    desk.pass(TIMING.reservation);
    desk.pay("k", "other", { binding: "other body" });
    expect(words(desk.buy("k", "j"))).toBe("reservation_lost");
    expect(words(desk.buy("k", "other"))).toBe("");
  });

  test.each(["reserved", "held", "settling", "settled", "spent", "credit"])(
    "[PY6] another body or signature under a key that is %s is already used",
    (phase) => {
      const desk = new Desk();
      desk.reserve("k", "j");
      if (phase !== "reserved") desk.buy("k", "j");
      if (phase !== "reserved" && phase !== "held") desk.register("w");
      if (phase === "settled" || phase === "spent" || phase === "credit") desk.settled("k");
      if (phase === "spent") completes(desk, "w#1", "j");
      if (phase === "credit") fails(desk, "w#1", "j");
      expect(desk.money("k")).toBe(phase);
      expect(words(desk.reserve("k", "other", { binding: "other" }))).toBe("payment_already_used");
      expect(words(desk.reserve("k", "other", { digest: "other" }))).toBe("payment_already_used");
    },
  );

  test("[PY6] the same payment gives the same job: while it waits, runs, and after its end", () => {
    const desk = new Desk();
    desk.pay("k", "j");
    expect(words(desk.reserve("k", "2"))).toBe("known j");
    desk.register("w");
    expect(words(desk.reserve("k", "3"))).toBe("known j");
    desk.settled("k");
    completes(desk, "w#1", "j");
    expect(words(desk.reserve("k", "4"))).toBe("known j");
  });
});

describe("moves that are not in the table", () => {
  const STARTS: readonly { from: string; to: string; start: (desk: Desk) => void }[] = [
    { from: "reserved", to: "credit", start: (desk) => desk.reserve("k", "j") },
    { from: "held", to: "settled", start: (desk) => desk.pay("k", "j") },
    { from: "void unused", to: "credit", start: (desk) => [desk.pay("k", "j"), desk.pass(TIMING.claimWindow)] },
  ];

  test.each(STARTS)("[PY8] money that moved for a payment that is $from: the move to $to is refused, and nothing changes", ({ from, to, start }) => {
    const desk = new Desk();
    start(desk);
    const before = structuredClone([desk.rows, desk.where("j")]);
    expect(() => desk.settled("k")).toThrow(expect.objectContaining({ name: "IllegalMove", key: "k", from, to }));
    expect([desk.rows, desk.where("j")]).toEqual(before);
  });

  test("[PY8] a payment that is set aside fails its job and leaves the others alone; a later word that it is settled changes nothing", () => {
    const desk = new Desk();
    desk.pay("k", "j");
    desk.pay("l", "other");
    desk.quarantine("k");
    expect([desk.where("j"), desk.where("other")]).toEqual(["failed payment_failed", "pending"]);
    expect([desk.money("k"), desk.money("l")]).toEqual(["unresolved illegal_move", "held"]);
    expect(desk.settled("k")).toMatchObject({ rows: [], sends: [], settles: [] });
    desk.register("w");
    expect(words(desk.settled("l"))).toBe("assign other 1 to w#1");
  });

  test("[PY8] the job of a payment that is set aside goes on if a worker has it", () => {
    const desk = settling();
    desk.settled("k");
    desk.quarantine("k");
    expect(desk.where("j")).toBe("assigned w 1");
    completes(desk, "w#2", "j");
    expect([desk.where("j"), desk.money("k")]).toEqual(["completed w", "unresolved illegal_move"]);
  });
});

describe("rows that cannot be read", () => {
  test("[PY7] a job whose held payment is lost is not given to a worker: it fails, and one that a worker had already goes on", () => {
    const desk = new Desk();
    desk.register("w");
    desk.pay("ran", "r");
    desk.settled("ran");
    desk.pay("held", "h");
    desk.submit("free");
    desk.rows.delete("held");
    desk.rows.delete("ran");
    desk.forget();
    desk.tell({ type: "restored", damaged: [] });
    expect([desk.where("h"), desk.where("r"), desk.where("free")]).toEqual(["failed payment_failed", "assigned w 1 gone", "pending"]);
  });

  test("[JB9] [PY9] a job whose row cannot be read ends, above every revision that D1 may have, and leaves its payment as a credit", () => {
    const desk = settling();
    desk.settled("k");
    desk.state.jobs.clear();
    desk.forget();
    const end = {
      outcome: { status: "failed", cause: "worker_lost" },
      started: false,
      paymentRef: null,
      rev: Number.MAX_SAFE_INTEGER,
      attempts: 0,
      holders: [],
      endedAt: desk.now,
    };
    expect(desk.tell({ type: "restored", damaged: ["j"] }).rows).toContainEqual({ type: "ended", jobId: "j", ...end });
    expect(desk.money("k")).toBe("credit");
  });
});

describe("the settlement of a job, for its receipt [PY10]", () => {
  const endOf = ({ rows }: Reduced) => rows.find((row) => row.type === "ended");

  test("[PY10] the end of a completed job names the settlement that it has spent, its own or that of a credit", () => {
    const desk = settling();
    desk.settled("k");
    expect(endOf(desk.tell({ type: "cancel", jobId: "j" }))?.paymentRef).toBeNull();
    expect(desk.money("k")).toBe("credit");
    desk.pay("fresh", "f");
    expect(endOf(completes(desk, "w#1", "f"))?.paymentRef).toBe("tx k");
    desk.pay("next", "n");
    desk.settled("next");
    expect(endOf(completes(desk, "w#1", "n"))?.paymentRef).toBe("tx next");
  });

  test("[PY10] a free job, and one without a known settlement, name none", () => {
    const desk = settling();
    desk.settled("k", LOST);
    desk.pass(TIMING.settleRetry);
    desk.settled("k", USED);
    expect(endOf(completes(desk, "w#1", "j"))).toMatchObject({ outcome: { status: "completed" }, paymentRef: null });
    expect(desk.money("k")).toBe("spent");
    desk.submit("free");
    expect(endOf(completes(desk, "w#1", "free"))).toMatchObject({ outcome: { status: "completed" }, paymentRef: null });
  });
});

describe("settle between claim and assignment", () => {
  test("[PY7] a worker is claimed and kept, the payment is settled, then the job is assigned; its status is pending meanwhile", () => {
    const desk = new Desk();
    desk.register("w");
    expect(words(desk.pay("k", "j"))).toBe("reserved, settle k");
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling for w", "settling"]);
    expect(desk.state.jobs.get("j")?.attempts).toBe(0);
    desk.submit("free");
    expect(desk.where("free")).toBe("pending");
    expect(words(desk.settled("k"))).toBe("assign j 1 to w#1");
    expect(desk.money("k")).toBe("settled");
    completes(desk, "w#1", "j");
    expect(desk.money("k")).toBe("spent");
  });

  test("[PY7] no worker at once: held; settled when one comes, never settled when none does in 30 s", () => {
    const desk = new Desk();
    expect(words(desk.pay("k", "j"))).toBe("reserved");
    expect(desk.money("k")).toBe("held");
    desk.pay("l", "late");
    desk.pass(25_000);
    expect(words(desk.register("w"))).toBe("settle k");
    expect(words(desk.pass(5_000))).toBe("");
    expect([desk.where("late"), desk.money("l")]).toEqual(["failed no_eligible_worker", "void unused"]);
  });

  test("[PY7] a worker is kept for 20 s; settled after that, the job waits as a paid one", () => {
    const desk = settling();
    desk.submit("free");
    expect(words(desk.pass(TIMING.hold - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("assign free 1 to w#1");
    expect(desk.where("j")).toBe("settling");
    desk.settled("k");
    expect([desk.where("j"), desk.money("k")]).toEqual(["pending", "settled"]);
    expect(words(desk.register("v"))).toBe("assign j 1 to v#1");
  });

  test.each<[string, (desk: Desk) => unknown]>([
    ["the socket of the worker closes", (desk) => desk.tell({ type: "disconnect", connId: "w#1" })],
    ["the worker reconnects on another socket", (desk) => desk.register("w", { capabilities: [] })],
    ["the worker drains", (desk) => desk.tell({ type: "drain", connId: "w#1" })],
    ["the worker cannot run such jobs any more", (desk) => desk.tell({ type: "update", connId: "w#1", capabilities: new Set(["LLM_INFER"]), acks: true })],
    [
      "the worker is silent",
      (desk) => {
        desk.silence("w#1");
        desk.now += 1;
        for (const connId of ["w#1"]) desk.silence(connId);
        desk.now += TIMING.silentUnclaimable + 1;
      },
    ],
  ])("[PY7] while the payment is settled %s: the job waits as a paid one", (_, happen) => {
    const desk = settling();
    happen(desk);
    expect(words(desk.settled("k"))).not.toContain("assign");
    expect([desk.where("j"), desk.money("k")]).toEqual(["pending", "settled"]);
    expect(words(desk.register("v"))).toContain("assign j 1 to v#1");
  });

  test("[WS11] [PY7] a worker that drains while the payment is settled leaves after that", () => {
    const desk = settling();
    expect(words(desk.tell({ type: "drain", connId: "w#1" }))).toBe("");
    expect(words(desk.settled("k"))).toBe("drained w#1, close w#1 1000");
  });

  test("[JB4] [PY9] if the alarm is late and a payment is settled after the total time of its job, no worker gets that job", () => {
    const desk = settling();
    desk.now += TIMING.total;
    expect(words(desk.settled("k"))).toBe("");
    desk.tell({ type: "time" });
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed deadline_exceeded", "credit"]);
  });

  test("[ST1] the worker loses its tier while a FAST job's payment is settled: the job waits as paid", () => {
    const desk = new Desk({ stake: true });
    desk.register("w");
    desk.pay("k", "j", {}, { policy: "FAST" });
    desk.tell({ type: "tier", key: "w", tier: "Open" });
    expect(words(desk.settled("k"))).toBe("");
    expect(desk.where("j")).toBe("pending");
  });

  test("[PY7] the hub makes so many settle calls at once as its rule says, here 4; the next begins when one ends", () => {
    const desk = new Desk();
    for (let n = 0; n < 6; n++) desk.register(`w${n}`);
    for (let n = 0; n < 6; n++) desk.pay(`k${n}`, `j${n}`, { payer: `p${n}` });
    expect([desk.money("k3"), desk.money("k4"), desk.where("j4")]).toEqual(["settling", "held", "settling for w4"]);
    expect(words(desk.settled("k0"))).toBe("assign j0 1 to w0#1, settle k4");
    expect(words(desk.settled("k1", REFUSED))).toBe("settle k5");
  });

  test("[PY7] a worker is kept until its settlement has begun, and 20 s from then", () => {
    const desk = new Desk({ settlements: 1 });
    desk.register("v");
    desk.register("w");
    desk.pay("k", "j");
    desk.pay("l", "m", { payer: "quin" });
    desk.pass(TIMING.hold - 1);
    expect([desk.where("m"), desk.money("l")]).toEqual(["settling for w", "held"]);
    expect(words(desk.settled("k"))).toBe("assign j 1 to v#1, settle l");
    expect(words(desk.pass(TIMING.hold - 1))).not.toContain("settle");
    expect(desk.where("m")).toBe("settling for w");
    desk.pass(1);
    expect(desk.where("m")).toBe("settling");
  });

  test("[PY7] [PY8] the total time of a job is over while its payment is settled: payment_failed, because its money may move yet; then it is a credit", () => {
    const desk = new Desk({ settlements: 1 });
    for (let n = 0; n < 11; n++) desk.register(`w${n}`);
    for (let n = 0; n < 11; n++) desk.pay(`k${n}`, `j${n}`, { payer: `p${n}` });
    for (let n = 0; n < 9; n++) {
      desk.pass(19_000);
      desk.settled(`k${n}`);
    }
    desk.pass(TIMING.total - 9 * 19_000);
    expect([desk.money("k9"), desk.money("k10")]).toEqual(["settling", "void unused"]);
    expect([desk.where("j9"), desk.where("j10")]).toEqual(["failed payment_failed", "failed deadline_exceeded"]);
    desk.settled("k9");
    expect(desk.money("k9")).toBe("credit");
  });

  test("[PY7] a job whose window is over waits only as long as a worker that may take it is kept for a settlement that has not begun", () => {
    const desk = new Desk({ settlements: 0 });
    desk.register("w");
    desk.pay("k", "j");
    desk.submit("free");
    desk.submit("llm", { jobType: "LLM_INFER" });
    desk.tell({ type: "update", connId: "w#1", capabilities: new Set(["TASK"]), acks: true });
    desk.pass(TIMING.claimWindow + 1);
    expect([desk.where("j"), desk.where("free"), desk.where("llm")]).toEqual(["settling for w", "pending", "failed no_eligible_worker"]);
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(TIMING.retryTick);
    expect([desk.where("j"), desk.money("k"), desk.where("free")]).toEqual(["failed no_eligible_worker", "void unused", "failed no_eligible_worker"]);
  });

  test("[PY7] a job whose window is over and whose worker leaves before its settlement has begun: another idle worker takes it", () => {
    const desk = new Desk({ settlements: 0 });
    desk.register("w");
    desk.pay("k", "j");
    desk.pass(TIMING.claimWindow + 1);
    desk.register("x");
    desk.tell({ type: "disconnect", connId: "w#1" });
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling for x", "held"]);
    desk.tell({ type: "disconnect", connId: "x#1" });
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed no_eligible_worker", "void unused"]);
    expect(desk.state.queue.jobs).toBe(0);
  });

  test("[PY7] a queue of settlements over its cap: 503 before the payment is verified", () => {
    const desk = new Desk({ settlements: 0 });
    for (let n = 0; n < LIMITS.queuedSettlements; n++) desk.state.ledger.settleQueue.add(`k${n}`);
    expect(words(desk.reserve("k", "j"))).toBe("queue_full");
    expect(desk.money("k")).toBe("gone");
    // Its own request would settle it at once.
    desk.register("w");
    expect(words(desk.reserve("k", "j"))).toBe("reserved");
  });

  /** A desk where the request that brought `k` settles it, and `w` is kept for its job. */
  function settlingByRequest(): Desk {
    const desk = new Desk({ settlements: 0 });
    desk.register("w");
    desk.reserve("k", "j");
    expect(words(desk.buy("k", "j", "pam", {}, true))).toBe("");
    return desk;
  }

  test("[PY7] the request that brought a payment settles it: the hub makes no call, and its own number does not matter", () => {
    const desk = settlingByRequest();
    expect([desk.where("j"), desk.money("k"), desk.state.ledger.settlingByRequest.has("k")]).toEqual(["settling for w", "settling", true]);
    expect(words(desk.settled("k"))).toBe("assign j 1 to w#1");
    expect(desk.state.ledger.settlingByRequest.size).toBe(0);
  });

  test("[PY7] no worker at once: nothing is settlingByRequest, and the hub settles when it claims one", () => {
    const desk = new Desk();
    desk.reserve("k", "j");
    desk.buy("k", "j", "pam", {}, true);
    expect([desk.money("k"), desk.state.ledger.settlingByRequest.size]).toEqual(["held", 0]);
    expect(words(desk.register("w"))).toBe("settle k");
  });

  test("[PY8] a request that never tells the outcome leaves a doubt after 25 s, and the hub asks itself; its late answer counts if it is settled", () => {
    const desk = settlingByRequest();
    const late = (settlement: Settlement) => desk.tell({ type: "settled", key: "k", settlement, by: "request", stored: desk.rows.get("k") ?? null });
    expect(words(desk.pass(TIMING.settleReport - 1))).toBe("");
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling", "settling"]);
    desk.settings.settlements = 1;
    desk.pass(1);
    expect([desk.money("k"), desk.rows.get("k")?.lostAnswer]).toEqual(["unknown", true]);
    // Its call may still run at the facilitator.
    expect(words(desk.pass(TIMING.settleCall - TIMING.settleReport - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("settle k");
    expect(words(late(REFUSED))).toBe("");
    expect(desk.money("k")).toBe("settling");
    expect(words(late({ kind: "settled", transaction: "late" }))).toBe("assign j 1 to w#1");
    desk.settled("k", USED);
    expect([desk.where("j"), desk.rows.get("k")?.phase]).toEqual(["assigned w 1", { kind: "settled", transaction: "late" }]);
  });

  test.each([
    [REFUSED, "failed payment_failed", "void refused"],
    [USED, "failed payment_failed", "unresolved already_used"],
    [{ kind: "settled", transaction: "tx" }, "assigned w 1", "settled"],
    [BUSY, "settling", "held"],
  ] as const)("[PY8] a hub that loses its memory meanwhile takes the answer of the request, %o, and makes no call before", (settlement, where, money) => {
    const desk = settlingByRequest();
    desk.settings.settlements = 1;
    desk.pass(TIMING.settleReport - 1);
    desk.forget(["w"]);
    expect(words(desk.pass(0))).toBe("");
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling", "settling"]);
    desk.settled("k", settlement);
    expect([desk.where("j"), desk.money("k"), desk.rows.get("k")?.doubts]).toEqual([where, money, 0]);
  });

  test.each([0, 1])("[PY8] a request that has told nothing after 25 s leaves a doubt, also if the hub has lost its memory %i ms before", (before) => {
    const desk = settlingByRequest();
    desk.settings.settlements = 1;
    desk.pass(TIMING.settleReport - before);
    desk.forget(["w"]);
    desk.pass(before);
    expect([desk.where("j"), desk.money("k"), desk.state.ledger.payments.get("k")?.lostAnswer]).toEqual(["settling", "unknown", true]);
    expect(words(desk.pass(TIMING.settleCall - TIMING.settleReport))).toBe("settle k");
  });

  test("[JB4] whether the hub has lost its memory meanwhile: a job whose outcome was never in doubt has its 180 s in all", () => {
    const desk = settlingByRequest();
    desk.forget(["w"]);
    desk.settled("k");
    expect(desk.state.jobs.get("j")?.totalDue).toBe(desk.now + TIMING.total);
  });

  test("[PY8] a late answer names the transaction of a settlement that was assumed, and of one that is spent", () => {
    const desk = settlingByRequest();
    const late = (transaction: string) =>
      desk.tell({ type: "settled", key: "k", settlement: { kind: "settled", transaction }, by: "request", stored: desk.rows.get("k") ?? null });
    desk.settings.settlements = 1;
    desk.pass(TIMING.settleCall);
    desk.settled("k", USED);
    expect(desk.rows.get("k")?.phase).toMatchObject({ kind: "settled", transaction: "", assumedAt: desk.now });
    completes(desk, "w#1", "j");
    late("one");
    late("two");
    expect(desk.rows.get("k")?.phase).toEqual({ kind: "spent", transaction: "one" });
  });

  test("[PY7] refused: nothing was charged, the job fails and the worker is free", () => {
    const desk = settling();
    desk.submit("free");
    expect(words(desk.settled("k", REFUSED))).toBe("assign free 1 to w#1");
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "void refused"]);
    expect(words(desk.reserve("k", "again"))).toBe("payment_already_used");
  });

  test("[PY8] already used without a doubt fails the job and is left to the operator: nobody knows for what it was used", () => {
    const desk = settling();
    desk.settled("k", USED);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "unresolved already_used"]);
    expect([desk.state.ledger.payments.size, desk.state.ledger.timers.size]).toEqual([0, 0]);
    expect(words(desk.reserve("k", "again"))).toBe("payment_already_used");
    desk.settled("k");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY8] no second settle call begins beside one that may still run: it would be told that the payment was used before, although no money has moved", () => {
    const desk = settling();
    desk.pass(TIMING.settle);
    expect(words(desk.settled("k", { kind: "unknown", lost: true, mayStillRun: true }))).toBe("");
    expect(words(desk.pass(TIMING.settleCall - TIMING.settle - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("settle k");
    // A call whose connection was cut does not run any more.
    desk.settled("k", LOST);
    expect(words(desk.pass(2 * TIMING.settleRetry))).toBe("settle k");
  });

  test("[PY8] not asked: no doubt, the worker is free, and the job is offered again after 2 s", () => {
    const desk = settling();
    desk.submit("free");
    expect(words(desk.settled("k", BUSY))).toBe("assign free 1 to w#1");
    expect([desk.where("j"), desk.money("k"), desk.rows.get("k")?.doubts]).toEqual(["settling", "held", 0]);
    expect(words(desk.register("v"))).toBe("");
    expect(words(desk.pass(TIMING.settleRetry - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("settle k");
    expect(words(desk.settled("k"))).toBe("assign j 1 to v#1");
  });

  test("[PY8] never asked in its window: payment_failed, and void; a cancelled job's payment is void at once", () => {
    const desk = settling();
    for (let n = 0; n < 40 && desk.state.jobs.has("j"); n++) {
      desk.settled("k", BUSY);
      desk.pass(TIMING.settleRetry);
    }
    expect(desk.now - 1_000_000).toBe(TIMING.claimWindow);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "void unused"]);
    desk.pay("l", "m");
    desk.tell({ type: "cancel", jobId: "m" });
    desk.settled("l", BUSY);
    expect(desk.money("l")).toBe("void unused");
  });

  test("[PY8] a restart ends the pause of a payment that was not asked", () => {
    const desk = settling();
    desk.settled("k", BUSY);
    desk.forget();
    expect([desk.where("j"), desk.money("k")]).toEqual(["pending", "held"]);
    expect(words(desk.register("v"))).toBe("settle k");
    expect(words(desk.pass(TIMING.settleRetry))).toBe("");
  });

  test("[PY7] a job that ends while it is held or waits for its turn leaves no payment to settle", () => {
    const desk = new Desk();
    for (let n = 0; n < 5; n++) desk.register(`w${n}`);
    for (let n = 0; n < 5; n++) desk.pay(`k${n}`, `j${n}`, { payer: `p${n}` });
    desk.tell({ type: "cancel", jobId: "j4" });
    expect(desk.money("k4")).toBe("void unused");
    expect(words(desk.settled("k0"))).toBe("assign j0 1 to w0#1");
  });

  test("[PY9] a job that was cancelled while its payment was settled: a credit when it settles", () => {
    const desk = settling();
    desk.tell({ type: "cancel", jobId: "j" });
    expect(desk.money("k")).toBe("settling");
    desk.settled("k");
    expect(desk.money("k")).toBe("credit");
  });
});

describe("nobody knows", () => {
  /** The outcome of the first call is unknown. */
  function unknown(): Desk {
    const desk = settling();
    desk.settled("k", LOST);
    return desk;
  }

  test("[PY8] the worker is free, the job pending and not claimable, the same payment asked again", () => {
    const desk = unknown();
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling", "unknown"]);
    expect(words(desk.submit("free"))).toBe("assign free 1 to w#1");
    expect(words(desk.register("v"))).toBe("");
    expect(words(desk.pass(TIMING.settleRetry))).toBe("settle k");
    expect(words(desk.settled("k"))).toBe("assign j 1 to v#1");
  });

  test("[PY8] the pause doubles", () => {
    const desk = unknown();
    for (const pause of [2_000, 4_000, 8_000, 16_000]) {
      expect(words(desk.pass(pause - 1))).toBe("");
      expect(words(desk.pass(1))).toBe("settle k");
      desk.settled("k", LOST);
    }
  });

  test("[PY8] after a doubt already_used counts as our settlement, and the claim window and the total time start again", () => {
    const desk = unknown();
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(TIMING.settleRetry);
    desk.settled("k", LOST);
    desk.pass(4_000);
    desk.settled("k", USED);
    expect([desk.where("j"), desk.money("k")]).toEqual(["pending", "settled"]);
    expect(desk.state.jobs.get("j")).toMatchObject({ totalDue: desk.now + TIMING.total, windowDue: desk.now + TIMING.claimWindow });
  });

  test("[PY8] already used is ours only after an answer was lost: a payer can bring about every other doubt", () => {
    const desk = settling();
    desk.settled("k", SAID);
    desk.pass(TIMING.settleRetry);
    desk.settled("k", USED);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "unresolved already_used"]);
    // The money may have moved, so the same request is the same job, and no 402 asks for more.
    expect(desk.reserve("k", "again").answer).toEqual({ state: "known", jobId: "j" });
  });

  test("[PY8] an answer that was lost stays lost, whatever the facilitator says after it", () => {
    const desk = unknown();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", SAID);
    desk.pass(2 * TIMING.settleRetry);
    desk.settled("k", USED);
    expect(desk.money("k")).toBe("settled");
  });

  test("[PY8] already used is no credit for a job that has ended, though an answer was lost: only the operator makes one", () => {
    const desk = unresolved();
    expect(words(desk.pass(TIMING.settleRetryMax))).toBe("settle k");
    desk.settled("k", USED);
    expect([desk.money("k"), desk.balance()]).toEqual(["unresolved already_used", 0]);
  });

  test("[PY8] not asked after a doubt: the doubt stays, and so does what it was about", () => {
    const desk = unknown();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", BUSY);
    expect([desk.where("j"), desk.money("k"), desk.rows.get("k")?.lostAnswer]).toEqual(["settling", "unknown", true]);
  });

  /** Assumes a settlement of `payer`, whose job is done. */
  function assume(desk: Desk, key: string, payer: string): void {
    desk.pay(key, `job of ${key}`, { payer });
    desk.settled(key, LOST);
    desk.pass(TIMING.settleRetry);
    desk.settled(key, USED);
    if (desk.money(key) === "settled") completes(desk, "w#1", `job of ${key}`);
  }

  test("[PY8] three a day of a payer are assumed, also across a restart; the next is left to the operator", () => {
    const desk = new Desk();
    desk.register("w");
    for (const key of ["a", "b", "c"]) assume(desk, key, "pam");
    expect(["a", "b", "c"].map((key) => desk.money(key))).toEqual(["spent", "spent", "spent"]);
    desk.forget(["w"]);
    desk.register("w");
    desk.pay("d", "j");
    desk.settled("d", LOST);
    desk.pass(TIMING.settleRetry);
    desk.settled("d", USED);
    expect([desk.where("j"), desk.money("d")]).toEqual(["failed payment_failed", "unresolved already_used"]);
    desk.pass(20 * TIMING.failedClaims);
    assume(desk, "late", "pam");
    expect(desk.money("late")).toBe("unresolved already_used");
    desk.pass(TIMING.parkHalving);
    desk.register("v");
    desk.pay("e", "k");
    desk.settled("e", LOST);
    desk.pass(TIMING.settleRetry);
    desk.settled("e", USED);
    expect(desk.money("e")).toBe("settled");
  });

  test("[PY8] twenty a day of a hub are assumed", () => {
    const desk = new Desk();
    desk.register("w");
    for (let n = 0; n < LIMITS.assumedPerHub; n++) assume(desk, `k${n}`, `payer ${n}`);
    expect(desk.money(`k${LIMITS.assumedPerHub - 1}`)).toBe("spent");
    assume(desk, "more", "another");
    expect(desk.money("more")).toBe("unresolved already_used");
  });

  test("[PY8] the job of an assumed settlement fails: that is no credit, unless the facilitator names the transaction after all", () => {
    const desk = unknown();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", USED);
    fails(desk, "w#1", "j");
    expect(desk.money("k")).toBe("unresolved assumed");
    desk.settled("k");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY8] the total time does not run meanwhile: the end of the authorization ends the job", () => {
    const desk = unknown();
    for (let n = 0; n < 30 && desk.where("j") === "settling" && desk.now < 1_000_000 + 290_000; n++) {
      if (words(desk.pass(10_000)).includes("settle k")) desk.settled("k", LOST);
    }
    expect(desk.where("j")).toBe("settling");
    expect(words(desk.pass(10_000))).toContain("settle k");
    expect(desk.where("j")).toBe("failed payment_failed");
    desk.settled("k", { kind: "settled", transaction: "late" });
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY8] asked once more just before the authorization ends", () => {
    const desk = settling();
    desk.now += 200_000;
    desk.settled("k", LOST);
    for (let doubts = 0; doubts < 5; doubts++) {
      desk.pass(TIMING.settleRetry * 2 ** doubts);
      desk.settled("k", LOST);
    }
    expect(desk.now).toBe(1_000_000 + 262_000);
    expect(words(desk.pass(27_999))).toBe("");
    expect(words(desk.pass(1))).toBe("settle k");
  });

  test("[PY8] unknown when the authorization has expired already: the job fails at once", () => {
    const desk = new Desk();
    desk.register("w");
    desk.pay("k", "j", { expiresAt: desk.now + 5_000 });
    desk.pass(20_000);
    desk.settled("k", LOST);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "unresolved expired"]);
  });

  test("[PY8] a refusal after a doubt ends the job, but the hub still asks: if it was settled, it is a credit", () => {
    const desk = unknown();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", REFUSED);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "unknown"]);
    expect(words(desk.pass(60_000))).toContain("settle k");
    desk.settled("k");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY8] asked for a day after it expired, and never void; it holds nothing up meanwhile [PY9]", () => {
    const desk = unknown();
    const end = desk.rows.get("k")?.expiresAt ?? 0;
    const asked: number[] = [];
    for (let minute = 0; minute < 2_000; minute++) {
      if (!words(desk.pass(60_000)).includes("settle k")) continue;
      if (desk.now >= end) asked.push(Math.round((desk.now - end) / 60_000));
      if (desk.now > end + 60_000) expect(desk.state.ledger.unsettledByPayer.size).toBe(0);
      desk.settled("k", LOST);
    }
    expect(desk.money("k")).toBe("unresolved expired");
    // Minutes after it has expired: the pause doubles up to an hour.
    expect(asked.slice(0, 8)).toEqual([0, 5, 10, 20, 40, 80, 140, 200]);
    expect([asked.length, asked.at(-1)]).toEqual([28, 1_400]);
    expect([desk.state.ledger.payments.size, desk.state.ledger.timers.size]).toEqual([0, 0]);
    desk.settled("k");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY7] [PY8] however many payments of jobs that have ended wait to be asked about, they keep no payment out, and a live job comes before them", () => {
    const desk = new Desk();
    desk.register("w");
    for (let n = 0; n <= LIMITS.queuedSettlements; n++) {
      desk.pay(`k${n}`, `j${n}`, { payer: `p${n}` });
      desk.settled(`k${n}`, LOST);
    }
    desk.settings.settlements = 0;
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(60_000);
    expect(words(desk.reserve("live", "live", { payer: "quin" })), "their jobs are live").toBe("queue_full");
    desk.pass(240_000);
    expect([desk.where("j0"), desk.where(`j${LIMITS.queuedSettlements}`)]).toEqual(["failed payment_failed", "failed payment_failed"]);
    desk.settings.settlements = 1;
    expect(words(desk.tell({ type: "settled", key: "none", settlement: LOST, by: "hub", stored: null }))).toBe("settle k0");
    expect(words(desk.pay("live", "live", { payer: "quin" }))).toBe("reserved");
    desk.register("w");
    expect(words(desk.settled("k0", LOST))).toBe("settle live");
    expect(words(desk.settled("live"))).toBe("assign live 1 to w#2, settle k1");
  });

  test("[PY9] payments that have expired do not count against their payer, nor while they are asked about", () => {
    const desk = new Desk();
    desk.register("w");
    for (let n = 0; n < LIMITS.heldPayments; n++) {
      desk.pay(`k${n}`, `j${n}`);
      desk.settled(`k${n}`, LOST);
    }
    desk.tell({ type: "disconnect", connId: "w#1" });
    const next = () => words(desk.reserve("next", "next"));
    expect(next()).toBe("too_many_held_payments");
    // Asked for the last time before they expired, and then again.
    desk.pass(300_000 - TIMING.settleLastChance + TIMING.settleReport);
    expect(desk.money("k0")).toBe("unresolved expired");
    desk.pass(TIMING.settleRetryMax);
    expect([0, 1, 2, 3].map((n) => desk.money(`k${n}`))).toEqual(["settling", "settling", "settling", "settling"]);
    expect(next()).toBe("reserved");
  });

  test("[PY8] the operator makes a payment in doubt a credit, and it pays for a job", () => {
    const desk = unresolved();
    expect(words(desk.order("k", "credit"))).toBe("done");
    // Nobody has told the hub by which transaction.
    expect(desk.rows.get("k")?.phase).toEqual({ kind: "credit", transaction: "" });
    desk.forget(["w"]);
    expect(words(desk.pay("fresh", "next"))).toContain("assign next 1 to w#2");
    expect([desk.money("k"), desk.money("fresh")]).toEqual(["credit", "covered"]);
    expect(words(desk.order("k", "credit"))).toBe("not_unresolved");
  });

  test("[PY8] the operator makes a payment in doubt void: the same payment buys nothing, and nobody asks for it again", () => {
    const desk = unresolved();
    expect(words(desk.order("k", "void"))).toBe("done");
    expect(desk.money("k")).toBe("void by_operator");
    expect(words(desk.pass(2 * TIMING.unknownSettlement))).toBe("");
    expect(words(desk.reserve("k", "again"))).toBe("payment_already_used");
    expect(words(desk.order("k", "credit"))).toBe("not_unresolved");
    // If the money moves after all, the operator was wrong, and is told.
    expect(() => desk.settled("k")).toThrow("from void by_operator to credit");
  });

  test.each([
    ["credit", "credit", 0],
    ["void", "void by_operator", 1],
  ] as const)("[PY8] an order of %s about a settlement that was assumed; an assumption that was wrong still counts", (verb, money, counted) => {
    const desk = unknown();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", USED);
    expect(words(desk.order("k", verb))).toBe("not_unresolved");
    fails(desk, "w#1", "j");
    expect(desk.state.ledger.assumed.size).toBe(1);
    expect(words(desk.order("k", verb))).toBe("done");
    desk.forget();
    expect([desk.money("k"), desk.state.ledger.assumed.size]).toEqual([money, counted]);
    desk.quarantine("k");
    expect([desk.money("k"), desk.state.ledger.assumed.size]).toEqual(["unresolved illegal_move", counted]);
  });

  test("[PY8] an order waits while the facilitator is asked, and changes nothing that is decided or still open", () => {
    const desk = settling();
    expect(words(desk.order("k", "void"))).toBe("under_way");
    desk.settled("k", LOST);
    expect(words(desk.order("k", "void"))).toBe("not_unresolved");
    expect(desk.money("k")).toBe("unknown");
    desk.pass(TIMING.settleRetry);
    desk.settled("k");
    expect(words(desk.order("k", "credit"))).toBe("not_unresolved");
    expect(words(desk.order("never", "credit"))).toBe("no_such_payment");
    expect([desk.money("k"), desk.where("j")]).toEqual(["settled", "assigned w 1"]);
  });

  test("[PY8] an answer to a question from before a loss of memory counts only if it says settled", () => {
    const desk = settling();
    desk.forget(["w"]);
    desk.settled("k", REFUSED);
    expect(desk.where("j")).toBe("settling");
    expect(words(desk.settled("k"))).toBe("assign j 1 to w#2");
  });

  test("[PY8] a restart while a payment is settled leaves a doubt, and it is asked for again as soon as the first call cannot run any more", () => {
    const desk = settling();
    desk.pass(5_000);
    desk.forget(["w"]);
    expect(desk.where("j")).toBe("settling");
    expect(words(desk.pass(TIMING.settleCall - 5_000 - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("settle k");
    expect(words(desk.settled("k", USED))).toBe("assign j 1 to w#2");
  });

  test("[PY8] after a restart with the clock set back, or long after the call, the next one begins in time", () => {
    const back = settling();
    back.now -= 3_600_000;
    back.forget(["w"]);
    expect(words(back.pass(TIMING.settleCall))).toBe("settle k");
    const late = settling();
    late.now += TIMING.settleCall;
    late.forget(["w"]);
    expect(words(late.pass(0))).toBe("settle k");
  });

  test("[PY7] a restart while a payment is held or waits for its turn changes nothing", () => {
    const desk = new Desk();
    desk.pay("k", "j");
    desk.forget();
    expect(desk.where("j")).toBe("pending");
    expect(words(desk.register("w"))).toBe("settle k");
  });
});

describe("credit", () => {
  test.each(["for good", "by its deadline", "cancelled"])("[PY9] a job that fails after settlement (%s) leaves a credit", (how) => {
    const desk = settling();
    desk.settled("k");
    if (how === "for good") fails(desk, "w#1", "j");
    if (how === "cancelled") desk.tell({ type: "cancel", jobId: "j" });
    if (how === "by its deadline") {
      desk.tell({ type: "disconnect", connId: "w#1" });
      desk.pass(TIMING.total);
    }
    expect(desk.money("k")).toBe("credit");
  });

  test("[JB13, WS10] a job that its worker lists when it reconnects is started, so whoever leaves does not cancel it", () => {
    const desk = settling();
    desk.settled("k");
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.register("w", { resume: [{ jobId: "j", attempt: 1 }] });
    desk.tell({ type: "cancel", jobId: "j", unlessStarted: true });
    expect([desk.where("j"), desk.money("k")]).toEqual(["running w 1", "settled"]);
  });

  test("[JB13] whoever leaves cancels only what nobody has started", () => {
    const desk = settling();
    desk.settled("k");
    desk.tell({ type: "ack", connId: "w#1", jobId: "j", attempt: 1 });
    desk.tell({ type: "cancel", jobId: "j", unlessStarted: true });
    expect(desk.where("j")).toBe("running w 1");
  });

  test("[PY9] the same payload starts one new job without payment, once", () => {
    const desk = withCredit();
    expect(words(desk.reserve("k", "second"))).toBe("credit");
    expect(words(desk.reserve("k", "third"))).toBe("credit");
    expect(words(desk.buy("k", "second"))).toBe("assign second 1 to w#1");
    expect(words(desk.buy("k", "third"))).toBe("reservation_lost");
    expect(words(desk.reserve("k", "third"))).toBe("known second");
    expect(words(desk.reserve("k", "fourth"))).toBe("known second");
  });

  test("[PY9] a fresh payment of the same payer is not settled, and another payer's is", () => {
    const desk = withCredit();
    expect(words(desk.pay("other", "o", { payer: "quin" }))).toBe("reserved, settle other");
    desk.settled("other", REFUSED);
    expect(words(desk.pay("fresh", "f"))).toBe("reserved, assign f 1 to w#1");
    expect([desk.money("k"), desk.money("fresh"), desk.balance()]).toEqual(["credit", "covered", 0]);
    completes(desk, "w#1", "f");
    expect([desk.money("k"), desk.money("fresh")]).toEqual(["spent by others", "void paid_by_credit"]);
  });

  test("[PY9] a balance falls by the price, never by more, and a cheap job does not burn a large credit", () => {
    const desk = withCredit({ amount: "10000" });
    for (let n = 1; n <= 10; n++) {
      expect(words(desk.pay(`f${n}`, `j${n}`))).toBe(`reserved, assign j${n} 1 to w#1`);
      expect(desk.balance()).toBe(10_000 - n * 1_000);
      completes(desk, "w#1", `j${n}`);
    }
    expect([desk.balance(), desk.money("k"), desk.money("f1")]).toEqual([0, "spent by others", "void paid_by_credit"]);
    expect(words(desk.pay("f11", "j11"))).toBe("reserved, settle f11");
  });

  test("[PY9] a job that is paid from the balance and fails gives the amount back, and the same request may come again", () => {
    const desk = withCredit({ amount: "10000" });
    desk.pay("fresh", "f");
    fails(desk, "w#1", "f");
    expect([desk.balance(), desk.money("fresh"), desk.where("f")]).toEqual([10_000, "void given_back", "failed worker_error"]);
    expect(words(desk.reserve("fresh", "again"))).toBe("credit");
    expect(words(desk.buy("fresh", "again"))).toBe("assign again 1 to w#1");
    completes(desk, "w#1", "again");
    expect([desk.balance(), desk.money("fresh")]).toEqual([9_000, "void paid_by_credit"]);
    expect(words(desk.reserve("fresh", "third"))).toBe("known again");
  });

  test("[PY9] [PY10] several credits pay for one job, the oldest first, and its transaction is the one that is shown", () => {
    const desk = withCredit();
    desk.pass(1_000);
    // Larger than the balance, so it is settled, and its job fails too.
    desk.pay("second", "s", { amount: "5000" });
    desk.settled("second");
    fails(desk, "w#1", "s");
    expect(desk.balance()).toBe(6_000);
    desk.pay("third", "t", { amount: "3000" });
    expect(desk.rows.get("third")?.phase).toMatchObject({
      ...{ kind: "covered", transaction: "tx k" },
      parts: [
        { key: "k", amount: "1000" },
        { key: "second", amount: "2000" },
      ],
    });
    const [ended] = completes(desk, "w#1", "t").rows.filter(({ type }) => type === "ended");
    expect(ended).toMatchObject({ paymentRef: "tx k" });
    expect([desk.balance(), desk.money("k"), desk.money("second")]).toEqual([3_000, "spent by others", "credit"]);
    expect(desk.rows.get("third")?.phase).toEqual({ kind: "void", reason: "paid_by_credit", transaction: "tx k" });
  });

  test("[PY9] [PY10] a credit of which other jobs have everything pays for nothing, so its transaction is not the one that is shown", () => {
    const desk = withCredit();
    desk.pay("second", "s", { amount: "5000" });
    desk.settled("second");
    fails(desk, "w#1", "s");
    desk.pay("first", "f");
    desk.pay("next", "n");
    expect(desk.rows.get("next")?.phase).toMatchObject({ kind: "covered", transaction: "tx second", parts: [{ key: "second", amount: "1000" }] });
  });

  test("[PY9] a payment whose own credit is spent by another job, while an older credit pays for its own, goes on paying for it", () => {
    const desk = settling();
    desk.register("v");
    desk.pay("second", "s");
    desk.settled("k");
    desk.settled("second");
    desk.tell({ type: "cancel", jobId: "j" });
    desk.pass(1_000);
    desk.tell({ type: "cancel", jobId: "s" });
    desk.pay("second", "again");
    desk.pay("third", "t");
    completes(desk, desk.where("t").includes("w") ? "w#1" : "v#1", "t");
    expect([desk.money("k"), desk.money("second"), desk.money("third"), desk.balance()]).toEqual(["credit", "covered", "void paid_by_credit", 0]);
    completes(desk, desk.where("again").includes("w") ? "w#1" : "v#1", "again");
    expect(desk.rows.get("second")?.phase).toEqual({ kind: "spent", transaction: "tx k", by: "balance", own: "tx second" });
  });

  test("[PY9] the news that a payment has settled may come twice, also when its money pays for another job already", () => {
    const desk = withCredit();
    desk.pay("k", "again");
    expect(desk.settled("k")).toMatchObject({ rows: [], sends: [], settles: [] });
    expect([desk.money("k"), desk.where("again")]).toEqual(["covered", "assigned w 1"]);
  });

  test("[PY9] the same payload again is refused if the balance does not cover it any more, also by a submit that comes too late", () => {
    const desk = withCredit({ amount: "10000" });
    expect(words(desk.reserve("k", "again", { amount: "10000" }))).toBe("credit");
    desk.pay("fresh", "f");
    expect(words(desk.buy("k", "again"))).toBe("payment_already_used");
    expect(words(desk.reserve("k", "third", { amount: "10000" }))).toBe("payment_already_used");
    fails(desk, "w#1", "f");
    expect(words(desk.reserve("k", "fourth", { amount: "10000" }))).toBe("credit");
    desk.forget(["w"]);
    expect([words(desk.reserve("k", "fifth", { amount: "10000" })), desk.balance()]).toEqual(["credit", 10_000]);
  });

  test("[PY9] what live jobs have of a balance survives a restart, and is given back if the row of the job is lost", () => {
    const desk = withCredit({ amount: "10000" });
    desk.pay("fresh", "f");
    desk.forget(["w"]);
    expect([desk.balance(), desk.where("f")]).toEqual([9_000, "assigned w 1"]);
    desk.state.jobs.delete("f");
    desk.tell({ type: "restored", damaged: ["f"] });
    expect([desk.balance(), desk.money("fresh")]).toEqual([10_000, "void given_back"]);
  });

  test("[PY9] of jobs that reached their deadline after they streamed text, three a day give their amount back; then the payment is spent", () => {
    const desk = new Desk();
    desk.register("w");
    const stream = (name: string): void => streamToDeadline(desk, name, `${name}-job`);
    for (const name of ["a", "b", "c"]) {
      stream(name);
      expect(desk.balance()).toBe(1_000_000);
    }
    desk.forget(["w"]);
    stream("d");
    expect([desk.balance(), desk.money("a"), desk.money("d")]).toEqual([0, "spent by others", "void paid_by_credit"]);
    stream("e");
    expect([desk.balance(), desk.money("e")]).toEqual([0, "spent"]);
    // Another payer's jobs are not counted with them.
    streamToDeadline(desk, "q", "q-job", "quin");
    expect([desk.balance("quin"), desk.money("q")]).toEqual([1_000_000, "credit"]);
    desk.pass(20 * TIMING.failedClaims);
    stream("late");
    expect([desk.balance(), desk.money("late")]).toEqual([0, "spent"]);
    desk.pass(TIMING.parkHalving);
    stream("f");
    expect(desk.balance()).toBe(1_000_000);
  });

  test.each([
    ["reach their deadline without any text", false, true],
    ["stream text, and their worker fails", true, false],
  ])("[PY9] jobs that %s give their amount back, however many they are", (_, streams, waits) => {
    const desk = new Desk();
    desk.register("w");
    for (let n = 0; n <= LIMITS.streamedCreditsPerPayer; n++) {
      desk.pay(`k${n}`, `j${n}`, { amount: String(10 ** n) });
      desk.settled(`k${n}`);
      if (streams) desk.tell({ type: "progress", connId: "w#1", jobId: `j${n}`, attempt: 1 });
      // An acknowledgement renews the lease too.
      for (let ms = 0; ms < (waits ? TIMING.total : 0); ms += 20_000) {
        desk.tell({ type: "ack", connId: "w#1", jobId: `j${n}`, attempt: 1 });
        desk.pass(20_000);
      }
      if (!waits) fails(desk, "w#1", `j${n}`);
      expect([desk.where(`j${n}`), desk.money(`k${n}`)]).toEqual([waits ? "failed deadline_exceeded" : "failed worker_error", "credit"]);
    }
  });

  test("[PY9] a job that reached its deadline without a text gives its amount back, however often: one amount can keep a worker busy", () => {
    const desk = new Desk();
    desk.register("w");
    for (let n = 0; n < 20; n++) {
      desk.pay("k", `j${n}`);
      if (desk.money("k") === "settling") desk.settled("k");
      for (let part = 0; part < 9; part++) {
        desk.tell({ type: "ack", connId: "w#1", jobId: `j${n}`, attempt: 1 });
        desk.pass(TIMING.total / 9);
      }
      expect(desk.where(`j${n}`)).toBe("failed deadline_exceeded");
      expect([desk.money("k"), desk.balance()]).toEqual(["credit", 1_000]);
    }
  });

  test("[PY9] one payment that is sent again gives its amount back once a day, however often its jobs stream text until their deadline", () => {
    const desk = new Desk();
    desk.register("w");
    streamToDeadline(desk, "k", "first");
    expect([desk.balance(), desk.money("k")]).toEqual([1_000_000, "credit"]);
    desk.forget(["w"]);
    streamToDeadline(desk, "k", "second");
    expect([desk.balance(), desk.money("k")]).toEqual([0, "spent by balance"]);
    expect(words(desk.reserve("k", "third", { amount: "1000000" }))).toBe("known second");
  });

  test("[JB5] a paid job that finds no worker fails with worker_unavailable, a job without a payment with no_eligible_worker", () => {
    const desk = withCredit();
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pay("fresh", "f");
    desk.submit("free");
    desk.pay("held", "h", { payer: "quin" });
    desk.pass(TIMING.claimWindow);
    expect([desk.where("f"), desk.money("fresh"), desk.balance()]).toEqual(["failed worker_unavailable", "void given_back", 1_000]);
    expect([desk.where("free"), desk.where("h"), desk.money("held")]).toEqual(["failed no_eligible_worker", "failed no_eligible_worker", "void unused"]);
  });

  test.each([
    ["before a worker acknowledged it", true, "credit", () => {}],
    ["after its worker acknowledged it", true, "spent", (desk: Desk) => desk.tell({ type: "ack", connId: "w#1", jobId: "j", attempt: 1 })],
    ["of a worker that never acknowledges", false, "spent", () => {}],
    ["after the worker that had acknowledged it was lost", true, "credit", loseAfterAck],
    ["while the worker that had acknowledged it has no socket", true, "credit", dropAfterAck],
  ] as const)("[JB13] cancelled %s", (_, acks, money, act) => {
    const desk = new Desk();
    desk.register("w", { acks });
    desk.pass(TIMING.arrival);
    desk.pay("k", "j");
    desk.settled("k");
    act(desk);
    desk.tell({ type: "cancel", jobId: "j" });
    expect([desk.money("k"), desk.where("j")]).toEqual([money, "failed cancelled"]);
  });

  test("[PY9] the payer counts as the facilitator names it, not as the payload does", () => {
    const desk = withCredit();
    desk.reserve("x", "j2", { payer: "pam" });
    expect(words(desk.buy("x", "j2", "quin"))).toBe("settle x");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY9] a balance pays for at most its amount", () => {
    const desk = withCredit();
    expect(words(desk.pay("large", "l", { amount: "1001" }))).toBe("reserved, settle large");
    desk.settled("large");
    fails(desk, "w#1", "l");
    expect(words(desk.pay("small", "s", { amount: "999" }))).toBe("reserved, assign s 1 to w#1");
    expect([desk.money("small"), desk.balance()]).toEqual(["covered", 1_002]);
  });

  test("[PY6] a payment that is paid from a balance gives its job when it comes again", () => {
    const desk = withCredit();
    desk.pay("fresh", "f", { binding: "other body" });
    expect(words(desk.reserve("fresh", "again", { binding: "other body" }))).toBe("known f");
    desk.forget(["w"]);
    expect(words(desk.reserve("fresh", "again", { binding: "other body" }))).toBe("known f");
    expect(words(desk.reserve("fresh", "again"))).toBe("payment_already_used");
  });

  /** `k` has paid for a job of `fresh` when its own had failed, and `x` is a credit of 1000. */
  function withSpentCredit(): Desk {
    const desk = withCredit();
    desk.pay("fresh", "f");
    desk.pay("x", "xj");
    completes(desk, "w#1", "f");
    desk.settled("x");
    fails(desk, "w#1", "xj");
    expect([desk.money("k"), desk.money("fresh"), desk.money("x"), desk.balance()]).toEqual(["spent by others", "void paid_by_credit", "credit", 1_000]);
    expect(words(desk.pay("k", "again"))).toBe("credit, assign again 1 to w#1");
    return desk;
  }

  test("[PY9] a payment whose money others have spent comes again, paid by another credit: it has moved money, whatever becomes of the job", () => {
    const completed = withSpentCredit();
    completes(completed, "w#1", "again");
    expect([completed.money("k"), completed.money("x"), completed.balance()]).toEqual(["spent by balance", "spent by others", 0]);
    const failed = withSpentCredit();
    fails(failed, "w#1", "again");
    expect([failed.money("k"), failed.money("x"), failed.balance()]).toEqual(["spent by others", "credit", 1_000]);
  });

  test("[PY9] a submit that comes twice does not run a job again that has failed meanwhile", () => {
    const desk = withCredit();
    expect(words(desk.reserve("k", "j"))).toBe("known j");
    expect(words(desk.buy("k", "j"))).toBe("");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY9] a credit survives a restart", () => {
    const desk = withCredit();
    desk.forget(["w"]);
    expect(words(desk.reserve("k", "again"))).toBe("credit");
  });

  test("[PY9] a credit pays only for jobs that are paid in its asset", () => {
    const desk = withCredit();
    expect(words(desk.pay("play money", "p", { asset: "other" }))).toBe("reserved, settle play money");
    expect(desk.money("k")).toBe("credit");
  });

  test("[PY9] payments with a kept worker do not count as held: with 20 workers 20 payments of one payer succeed at once", () => {
    const desk = new Desk();
    for (let n = 0; n < 20; n++) desk.register(`w${n}`);
    for (let n = 0; n < 20; n++) desk.reserve(`k${n}`, `j${n}`);
    for (let n = 0; n < 20; n++) expect(words(desk.buy(`k${n}`, `j${n}`))).toBe(n < desk.settings.settlements ? `settle k${n}` : "");
    for (let n = 0; n < LIMITS.heldPayments; n++) expect(words(desk.pay(`h${n}`, `i${n}`))).toBe("reserved");
    expect(words(desk.reserve("more", "m"))).toBe("too_many_held_payments");
    for (let n = 0; n < 20; n++) desk.settled(`k${n}`);
    for (let n = 0; n < 20; n++) expect(desk.where(`j${n}`)).toContain(`w${n}`);
  });

  test("[PY9] payments whose outcome is unknown count as held, also while the facilitator is asked again; an idle worker needs no place", () => {
    const desk = new Desk();
    desk.register("w");
    for (let n = 0; n < LIMITS.heldPayments; n++) {
      desk.pay(`k${n}`, `j${n}`);
      desk.settled(`k${n}`, LOST);
    }
    expect(words(desk.reserve("more", "m"))).toBe("reserved");
    desk.submit("free");
    expect(words(desk.reserve("another", "a"))).toBe("too_many_held_payments");
    desk.pass(TIMING.settleRetry);
    expect([0, 1, 2, 3].map((n) => desk.money(`k${n}`))).toEqual(["settling", "settling", "settling", "settling"]);
    expect(words(desk.reserve("another", "a"))).toBe("too_many_held_payments");
  });

  test("[PY9] what a balance covers needs no place among the held payments, and what it does not cover does", () => {
    const desk = withCredit();
    desk.tell({ type: "disconnect", connId: "w#1" });
    for (let n = 0; n < LIMITS.heldPayments; n++) desk.pay(`k${n}`, `j${n}`, { amount: "5000" });
    expect(words(desk.reserve("large", "l", { amount: "5000" }))).toBe("too_many_held_payments");
    expect(words(desk.pay("small", "s"))).toBe("reserved");
    expect([desk.money("small"), desk.balance()]).toEqual(["covered", 0]);
  });

  test("[PY9] at most 32 payments of one payer are unsettled, however many workers there are", () => {
    const desk = new Desk();
    for (let n = 0; n <= LIMITS.unsettledPayments; n++) desk.register(`w${n}`);
    for (let n = 0; n < LIMITS.unsettledPayments; n++) desk.pay(`k${n}`, `j${n}`);
    expect(words(desk.reserve("more", "m"))).toBe("too_many_held_payments");
    desk.settled("k0");
    expect(words(desk.reserve("more", "m"))).toBe("reserved");
  });

  test("[PY9] at most 4 held payments per payer, at reserve and at submit; a credit needs none", () => {
    const desk = new Desk();
    for (let n = 0; n < LIMITS.heldPayments; n++) desk.reserve(`k${n}`, `j${n}`);
    desk.reserve("more", "m");
    desk.reserve("unread", "u", { payer: null });
    for (let n = 0; n < LIMITS.heldPayments; n++) desk.buy(`k${n}`, `j${n}`);
    expect(words(desk.buy("more", "m"))).toBe("drop more, too_many_held_payments");
    expect(words(desk.buy("unread", "u"))).toBe("drop unread, too_many_held_payments");
    expect(words(desk.reserve("another", "a"))).toBe("too_many_held_payments");
    expect(words(desk.reserve("of quin", "q", { payer: "quin" }))).toBe("reserved");
    desk.register("w");
    desk.settled("k0");
    expect(words(desk.reserve("another", "a"))).toBe("reserved");
  });
});
