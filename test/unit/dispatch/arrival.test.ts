import { describe, expect, test } from "vitest";
import { nextDue } from "../../../src/coordinator/dispatch/index.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { Desk, START, words } from "./desk.ts";

const PLAIN = { acks: false };

describe("a worker without `ack` that has just registered", () => {
  test("[JB2] gets nothing for 2 s, and then at once the job that waits", () => {
    const desk = new Desk();
    desk.submit("j");
    expect(words(desk.register("w", PLAIN))).toBe("");
    desk.pass(TIMING.arrival - 1);
    expect(desk.where("j")).toBe("pending");
    expect(nextDue(desk.state)).toBe(START + TIMING.arrival);
    expect(words(desk.pass(1))).toBe("assign j 1 to w#1");
  });

  test("[JB2] gets a job that came during these 2 s as soon as they are over, not at the next tick", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.pass(1_500);
    desk.submit("j");
    desk.pass(499);
    expect(desk.where("j")).toBe("pending");
    expect(words(desk.pass(1))).toBe("assign j 1 to w#1");
  });

  test("[JB2] sets no timer if no job waits, and its turn still goes by last use", () => {
    const desk = new Desk();
    desk.register("used", { lastUsedAt: START - 1 });
    desk.register("w", PLAIN);
    expect(nextDue(desk.state)).toBe(START + TIMING.sweep);
    desk.pass(TIMING.arrival);
    // A newly registered key counts as used when it registered.
    expect(words(desk.submit("j"))).toBe("assign j 1 to used#1");
    expect(words(desk.submit("k"))).toBe("assign k 1 to w#1");
  });

  test("[JB2] does not delay a job that another idle worker can take at once", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.register("other", { lastUsedAt: START });
    expect(words(desk.submit("j"))).toBe("assign j 1 to other#1");
    desk.submit("second");
    expect(words(desk.register("third", { capabilities: ["TASK"] }))).toBe("assign second 1 to third#1");
  });

  test("[JB2] does not wait if it announces `ack`, on a second register frame too", () => {
    const desk = new Desk();
    desk.submit("j");
    expect(words(desk.register("acks"))).toBe("assign j 1 to acks#1");
    desk.submit("k");
    desk.register("w", PLAIN);
    expect(words(desk.tell({ type: "update", connId: "w#1", capabilities: new Set(["TASK"]), acks: true }))).toBe("assign k 1 to w#1");
    // From then on it must acknowledge [WS9].
    expect(words(desk.pass(TIMING.ack))).toContain("cancel k 1 on w#1: ack_timeout");
  });

  test("[JB2] that announces `ack` later is found by the next job, although a claim has passed it over", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.submit("passed over");
    desk.tell({ type: "cancel", jobId: "passed over" });
    desk.tell({ type: "update", connId: "w#1", capabilities: new Set(["LLM_INFER", "TASK"]), acks: true });
    expect(words(desk.submit("j"))).toBe("assign j 1 to w#1");
  });

  test("[JB2] gets at once a job whose claim window ends within the 2 s, the first one in order", () => {
    const desk = new Desk();
    desk.submit("llm", { jobType: "LLM_INFER" });
    desk.pass(500);
    desk.submit("cheap");
    desk.submit("fast", { policy: "FAST" });
    desk.pass(1_600);
    desk.submit("young", { policy: "FAST", createdAt: desk.now });
    desk.pass(28_500 - 2_100);
    expect(words(desk.register("w", { ...PLAIN, capabilities: ["TASK"] }))).toBe("assign fast 1 to w#1");
    expect(words(desk.register("v", { ...PLAIN, capabilities: ["TASK"] }))).toBe("assign cheap 1 to v#1");
    expect(words(desk.register("u", { ...PLAIN, capabilities: ["TASK"] }))).toBe("");
    expect(desk.where("young")).toBe("pending");
    expect(words(desk.pass(TIMING.arrival))).toContain("assign young 1 to u#1");
  });

  test("[JB2] gets at once a job that another worker rejects, if its claim window ends within the 2 s", () => {
    const desk = new Desk();
    desk.submit("j");
    desk.pass(29_000);
    desk.register("rejects");
    desk.register("w", PLAIN);
    expect(desk.where("j")).toBe("assigned rejects 1");
    expect(words(desk.tell({ type: "reject", connId: "rejects#1", jobId: "j" }))).toBe("assign j 1 to w#1");
  });

  test("[JB2] gets its own lease back at once", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.pass(TIMING.arrival);
    desk.submit("j");
    desk.submit("next");
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.register("w", PLAIN);
    expect(desk.where("j")).toBe("assigned w 1");
    expect(words(desk.tell({ type: "complete", connId: "w#2", jobId: "j", attempt: 1, verdict: "valid" }))).toBe("accepted");
    expect(words(desk.pass(TIMING.arrival))).toBe("assign next 1 to w#2");
  });

  test("[JB2, JB4] counts as connected: a worker that lost the job does not get it again before this one", () => {
    const desk = new Desk();
    desk.register("loses");
    desk.submit("j");
    desk.pass(1_000);
    desk.register("w", PLAIN);
    desk.tell({ type: "failed", connId: "loses#1", jobId: "j", attempt: 1, retryable: true });
    expect(words(desk.pass(TIMING.arrival - 1))).toBe("");
    expect(words(desk.pass(1))).toBe("assign j 2 to w#1");
  });

  test("[JB2, JB8] counts as connected and busy: its user's PRIVATE job is accepted and waits", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.submit("j", { privacyClass: "PRIVATE", trustedKeys: ["w"] });
    expect(desk.where("j")).toBe("pending");
    expect(words(desk.pass(TIMING.arrival))).toBe("assign j 1 to w#1");
  });

  test("[JB2, PY7] counts as busy for a paid job: the payment is held, and settled after the 2 s", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.pay("k", "j");
    expect(desk.money("k")).toBe("held");
    expect(words(desk.pass(TIMING.arrival))).toBe("settle k");
    expect(words(desk.settled("k"))).toBe("assign j 1 to w#1");
  });

  test("[JB2] does not wait again after the hub lost its memory", () => {
    const desk = new Desk();
    desk.register("w", PLAIN);
    desk.pass(TIMING.arrival);
    desk.forget();
    desk.submit("j");
    expect(words(desk.register("w", { ...PLAIN, registeredAt: START }))).toBe("assign j 1 to w#2");
  });

  test("[JB2] waits for 2 s and no longer if the clock is set back", () => {
    const desk = new Desk();
    desk.submit("j");
    desk.register("w", { ...PLAIN, registeredAt: START + 3_600_000 });
    expect(words(desk.pass(TIMING.arrival))).toBe("assign j 1 to w#1");
  });
});
