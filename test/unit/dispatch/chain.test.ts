import { describe, expect, test } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import type { Finding, Settlement } from "../../../src/coordinator/dispatch/index.ts";
import { Desk, words } from "./desk.ts";

const USED: Settlement = { kind: "already_used" };
const LOST: Settlement = { kind: "unknown", lost: true };
const MOVED: Finding = { kind: "settled", transaction: "0xfound" };
const CANCELLED: Finding = { kind: "void", proof: "cancelled" };

const completes = (desk: Desk, connId: string, jobId: string) => desk.tell({ type: "complete", connId, jobId, attempt: undefined, verdict: "valid" });
const fails = (desk: Desk, connId: string, jobId: string) => desk.tell({ type: "failed", connId, jobId, attempt: 1, retryable: false });

/** A job that is being settled for the first time, or whose settlement is in doubt. */
function settling(chain = true): Desk {
  const desk = new Desk({ chain });
  desk.register("w");
  desk.pay("k", "j");
  return desk;
}

function doubtful(chain = true): Desk {
  const desk = settling(chain);
  desk.settled("k", LOST);
  expect([desk.where("j"), desk.money("k")]).toEqual(["settling", "unknown"]);
  return desk;
}

describe("the chain's word about a payment in doubt", () => {
  test("[PY8] the money has moved: the job runs, with the transaction that the chain names", () => {
    const desk = doubtful();
    expect(words(desk.found("k", MOVED))).toBe("assign j 1 to w#1");
    expect(desk.rows.get("k")?.phase).toEqual(MOVED);
    completes(desk, "w#1", "j");
    expect(desk.money("k")).toBe("spent");
  });

  test.each(["cancelled", "used_elsewhere", "failed", "expired"] as const)(
    "[PY8] no money can move any more, %s: the job fails, and the payment is void for ever",
    (proof) => {
      const desk = doubtful();
      desk.found("k", { kind: "void", proof });
      expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "void by_chain"]);
      expect(desk.rows.get("k")?.phase).toEqual({ kind: "void", reason: "by_chain", proof });
      // The first answer was 201. For anything else it is used up.
      expect(words(desk.reserve("k", "again"))).toBe("known j");
      expect(words(desk.reserve("k", "again", { binding: "other" }))).toBe("payment_already_used");
      desk.pass(TIMING.parkHalving);
      expect(desk.money("k")).toBe("void by_chain");
    },
  );

  test("[PY8] a refusal after a doubt ends nothing: the job waits until the chain says what the first call has moved", () => {
    const desk = doubtful();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", { kind: "refused" });
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling", "unknown"]);
    expect(words(desk.found("k", MOVED))).toBe("assign j 1 to w#1");
  });

  test("[PY8] already used is never believed: the payment stays in doubt until the chain says for what", () => {
    const desk = doubtful();
    desk.pass(TIMING.settleRetry);
    desk.settled("k", USED);
    expect([desk.where("j"), desk.money("k")]).toEqual(["settling", "unknown"]);
    desk.found("k", CANCELLED);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "void by_chain"]);
  });

  test("[PY8] already used without a doubt fails the job at once; then the chain makes a credit of it, or voids it", () => {
    for (const [finding, money, balance] of [
      [MOVED, "credit", 1_000],
      [CANCELLED, "void by_chain", 0],
    ] as const) {
      const desk = new Desk({ chain: true });
      desk.register("w");
      desk.pay("k", "j");
      desk.settled("k", USED);
      expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", "unresolved already_used"]);
      desk.found("k", finding);
      expect([desk.money("k"), desk.balance()]).toEqual([money, balance]);
      if (money === "void by_chain") expect(words(desk.reserve("k", "again"))).toBe("payment_already_used");
    }
  });

  test.each([
    ["soon after", 0, "credit", MOVED],
    ["soon after", 0, "void by_chain", CANCELLED],
    ["when nobody asks any more,", 2 * TIMING.unknownSettlement, "credit", MOVED],
    ["when nobody asks any more,", 2 * TIMING.unknownSettlement, "void by_chain", CANCELLED],
  ] as const)("[PY8] %s an authorization has expired (%i ms), its payment becomes %s", (_, later, money, finding) => {
    const desk = doubtful();
    const end = desk.now + 300_000 + later;
    while (desk.now < end || desk.money("k") !== "unresolved expired") {
      desk.pass(TIMING.retryTick);
      if (desk.money("k") === "settling") desk.settled("k", LOST);
    }
    desk.found("k", finding);
    expect([desk.where("j"), desk.money("k")]).toEqual(["failed payment_failed", money]);
  });

  test("[PY8] after its job has ended, a payment in doubt is not settled again before it expires: the chain decides, and nobody needs the money", () => {
    const desk = doubtful();
    const end = desk.rows.get("k")?.expiresAt ?? 0;
    desk.tell({ type: "cancel", jobId: "j" });
    expect(words(desk.pass(100_000))).toBe("");
    desk.forget(["w"]);
    expect(words(desk.pass(end - 1 - desk.now))).toBe("");
    expect(words(desk.pass(1))).toBe("settle k");
    desk.settled("k", LOST);
    expect(desk.money("k")).toBe("unresolved expired");
  });

  test("[PY8] without the chain it is, because nobody else can say what became of it", () => {
    const desk = doubtful(false);
    desk.tell({ type: "cancel", jobId: "j" });
    expect(words(desk.pass(TIMING.settleRetry))).toBe("settle k");
  });

  test("[PY8] nor does one that has waited for its turn to be settled, if its job has ended meanwhile", () => {
    const desk = new Desk({ chain: true, settlements: 1 });
    desk.register("w");
    desk.register("v");
    desk.pay("k", "j");
    desk.settled("k", LOST);
    desk.pay("l", "other", { payer: "quin" });
    desk.pass(TIMING.settleRetry);
    expect([...desk.state.ledger.settleQueue]).toEqual(["k"]);
    desk.tell({ type: "cancel", jobId: "j" });
    expect(words(desk.settled("l"))).toBe("assign other 1 to w#1");
    expect([desk.money("k"), desk.state.ledger.settleQueue.size]).toEqual(["unknown", 0]);
  });

  test("[PY8] a settle call that is under way changes nothing any more, and its place is free for the next", () => {
    for (const finding of [MOVED, CANCELLED]) {
      const desk = new Desk({ chain: true, settlements: 1 });
      desk.register("w");
      desk.register("v");
      desk.pay("k", "j");
      desk.settled("k", LOST);
      desk.pass(TIMING.settleRetry);
      expect(desk.money("k")).toBe("settling");
      desk.pay("l", "other", { payer: "quin" });
      expect(desk.money("l")).toBe("held");
      expect(words(desk.found("k", finding))).toContain("settle l");
      const before = structuredClone(desk.rows.get("k"));
      for (const kind of ["refused", "already_used", "not_asked"] as const) desk.settled("k", { kind });
      desk.settled("k", LOST);
      expect(desk.rows.get("k")).toEqual(before);
    }
  });

  test("[PY8] a facilitator that says later that a void payment is settled contradicts the chain: the move is refused", () => {
    const desk = doubtful();
    desk.found("k", CANCELLED);
    expect(() => desk.settled("k")).toThrow(expect.objectContaining({ name: "IllegalMove", from: "void by_chain", to: "credit" }));
  });

  const NOT_IN_DOUBT: readonly [string, (desk: Desk) => void][] = [
    ["reserved", (desk) => desk.reserve("k", "j")],
    ["held", (desk) => desk.pay("k", "j")],
    ["settling", (desk) => [desk.register("w"), desk.pay("k", "j")]],
    ["settled", (desk) => [desk.register("w"), desk.pay("k", "j"), desk.settled("k")]],
    ["void refused", (desk) => [desk.register("w"), desk.pay("k", "j"), desk.settled("k", { kind: "refused" })]],
  ];
  test.each(NOT_IN_DOUBT)("[PY8] it changes nothing about a payment that is %s", (money, start) => {
    const desk = new Desk({ chain: true });
    start(desk);
    expect(desk.money("k")).toBe(money);
    for (const finding of [MOVED, CANCELLED]) expect(desk.found("k", finding)).toMatchObject({ rows: [], sends: [], settles: [] });
    expect(desk.money("k")).toBe(money);
  });

  test.each([
    [MOVED, "credit", 0],
    [CANCELLED, "void by_chain", 1],
  ] as const)("[PY8] %o about a settlement that was assumed before the chain could be read, and whose job failed: %s", (finding, money, counted) => {
    const desk = doubtful(false);
    desk.pass(TIMING.settleRetry);
    desk.settled("k", USED);
    fails(desk, "w#1", "j");
    expect(desk.money("k")).toBe("unresolved assumed");
    desk.found("k", finding);
    expect([desk.money("k"), desk.state.ledger.assumed.size]).toEqual([money, counted]);
  });

  test("[PY8] what a bug has set aside is not the chain's to decide", () => {
    const desk = doubtful();
    desk.quarantine("k");
    for (const finding of [MOVED, CANCELLED]) desk.found("k", finding);
    expect(desk.money("k")).toBe("unresolved illegal_move");
  });
});

describe("orders about a payment that a bug has set aside", () => {
  test.each([
    ["credit", "credit", 1_000],
    ["void", "void by_operator", 0],
  ] as const)("[PY8] %s: it is %s, once its job has ended", (verb, money, balance) => {
    const desk = settling();
    desk.settled("k");
    desk.quarantine("k");
    expect(desk.where("j")).toBe("assigned w 1");
    expect(desk.order("k", verb).answer).toBe("under_way");
    expect(desk.money("k")).toBe("unresolved illegal_move");
    desk.tell({ type: "cancel", jobId: "j" });
    expect(desk.order("k", verb).answer).toBe("done");
    expect([desk.money("k"), desk.balance()]).toEqual([money, balance]);
    expect(desk.order("k", verb).answer).toBe("not_unresolved");
  });

  test("[PY8] one whose money is in a balance already stays as it is: its payer can spend it", () => {
    const desk = settling();
    desk.settled("k");
    fails(desk, "w#1", "j");
    expect([desk.money("k"), desk.balance()]).toEqual(["credit", 1_000]);
    desk.quarantine("k");
    for (const verb of ["credit", "void"] as const) expect(desk.order("k", verb).answer).toBe("has_balance");
    expect([desk.money("k"), desk.balance()]).toEqual(["unresolved illegal_move", 1_000]);
    expect(words(desk.pay("l", "next"))).toContain("assign next");
    expect(desk.balance()).toBe(0);
    completes(desk, "w#1", "next");
    for (const verb of ["credit", "void"] as const) expect(desk.order("k", verb).answer).toBe("has_balance");
    expect(desk.balance()).toBe(0);
  });
});
