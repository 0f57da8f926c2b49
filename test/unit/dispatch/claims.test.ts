import { describe, expect, test } from "vitest";
import { type LiveJob, snapshotOf } from "../../../src/coordinator/dispatch/index.ts";
import { KiB, LIMITS } from "../../../src/protocol/limits.ts";
import { Desk, words } from "./desk.ts";

const fail = (desk: Desk, connId: string, jobId: string, attempt = 1) => desk.tell({ type: "failed", connId, jobId, attempt, retryable: true });
const done = (desk: Desk, connId: string, jobId: string) => desk.tell({ type: "complete", connId, jobId, attempt: undefined, verdict: "valid" });

describe("who gets what", () => {
  test("[JB2] a free worker is claimed at once, and a freed one takes the next job at once", () => {
    const desk = new Desk();
    desk.register("w");
    expect(words(desk.submit("a"))).toBe("assign a 1 to w#1");
    expect(words(desk.submit("b"))).toBe("");
    expect(words(done(desk, "w#1", "a"))).toBe("accepted, assign b 1 to w#1");
  });

  test("[JB2] a worker that registers takes a waiting job at once", () => {
    const desk = new Desk();
    desk.submit("a");
    expect(words(desk.register("w"))).toBe("assign a 1 to w#1");
  });

  test("[JB2] other capabilities or another tier bring the next job at once", () => {
    const desk = new Desk({ stake: true });
    desk.register("w", { capabilities: ["TASK"], tier: "Open" });
    desk.submit("llm", { jobType: "LLM_INFER" });
    desk.submit("fast", { policy: "FAST" });
    expect(words(desk.tell({ type: "tier", key: "w", tier: "Verified" }))).toBe("assign fast 1 to w#1");
    desk.register("v", { capabilities: ["TASK"] });
    expect(words(desk.tell({ type: "update", connId: "v#1", capabilities: new Set(["LLM_INFER"]), acks: true }))).toBe("assign llm 1 to v#1");
  });

  test("[JB3] the least recently used of the free workers", () => {
    const desk = new Desk();
    desk.register("a", { lastUsedAt: 30 });
    desk.register("b", { lastUsedAt: 10 });
    desk.register("c", { lastUsedAt: 20 });
    expect([desk.submit("1"), desk.submit("2"), desk.submit("3")].map(words)).toEqual(["assign 1 1 to b#1", "assign 2 1 to c#1", "assign 3 1 to a#1"]);
  });

  test("[JB3] CHEAP counts as 10 s younger than FAST, and does not wait for ever", () => {
    const desk = new Desk();
    desk.submit("cheap");
    desk.now += 9_999;
    desk.submit("fast", { policy: "FAST" });
    desk.now += 2;
    desk.submit("late fast", { policy: "FAST" });
    expect(words(desk.register("w"))).toBe("assign fast 1 to w#1");
    expect(words(done(desk, "w#1", "fast"))).toBe("accepted, assign cheap 1 to w#1");
    expect(words(done(desk, "w#1", "cheap"))).toBe("accepted, assign late fast 1 to w#1");
  });

  test("[JB4] a worker that lost a job does not get it again while another eligible worker is connected, busy or not", () => {
    const desk = new Desk();
    desk.register("a");
    desk.submit("j");
    desk.register("b");
    desk.submit("other");
    fail(desk, "a#1", "j");
    desk.tell({ type: "ack", connId: "b#1", jobId: "other", attempt: 1 });
    desk.pass(4_000);
    expect(desk.where("j")).toBe("pending");
    expect(words(done(desk, "b#1", "other"))).toBe("accepted, assign j 2 to b#1");
  });

  test("[JB4] the only worker gets it again, and not before the tick", () => {
    const desk = new Desk();
    desk.register("a");
    desk.submit("j");
    desk.pass(500);
    expect(words(fail(desk, "a#1", "j"))).toBe("");
    expect(words(desk.pass(1_999))).toBe("");
    expect(words(desk.pass(1))).toBe("assign j 2 to a#1");
  });

  test("[JB3] at the tick too, FAST comes before CHEAP", () => {
    const desk = new Desk();
    desk.register("a");
    desk.submit("cheap");
    fail(desk, "a#1", "cheap");
    desk.submit("fast", { policy: "FAST" });
    fail(desk, "a#1", "fast");
    expect(words(desk.pass(2_000))).toBe("assign fast 2 to a#1");
  });

  test("[WS9] [WS12] a rejection uses no attempt, and the worker held nothing: its result does not count, and it hears nothing of the next attempt", () => {
    const desk = new Desk();
    desk.register("a");
    desk.submit("j");
    desk.register("b");
    expect(words(desk.tell({ type: "reject", connId: "a#1", jobId: "j" }))).toBe("assign j 1 to b#1");
    expect(words(done(desk, "a#1", "j"))).toBe("rejected: not_assigned");
    expect(words(done(desk, "b#1", "j"))).toBe("accepted");
  });

  test("[WS9] [JB6] a worker that acknowledged before it rejected did hold the job: its result counts", () => {
    const desk = new Desk();
    desk.register("a");
    desk.submit("j");
    desk.register("b");
    desk.tell({ type: "ack", connId: "a#1", jobId: "j", attempt: 1 });
    expect(words(desk.tell({ type: "reject", connId: "a#1", jobId: "j" }))).toBe("assign j 1 to b#1");
    expect(words(done(desk, "a#1", "j"))).toBe("accepted, cancel j 1 on b#1: completed");
  });

  test.each(["retryable", "for good"] as const)("[JB4] a worker that fails %s in many jobs in a row gets nothing until the tick", (kind) => {
    const desk = new Desk();
    for (let n = 0; n < 20; n++) desk.submit(`j${n}`);
    desk.register("w");
    for (let n = 0; n < 20; n++) desk.tell({ type: "failed", connId: "w#1", jobId: `j${n}`, attempt: 1, retryable: kind === "retryable" });
    const tried = [...desk.ends.keys(), ...desk.state.retrying];
    expect(tried).toHaveLength(LIMITS.failuresInARow);
    expect(words(desk.pass(2_000))).toContain("assign j5 1 to w#1");
  });

  test("[JB4] a new socket ends neither its rest nor its row of failures, also after its old one is gone", () => {
    const desk = new Desk();
    for (let n = 0; n < 20; n++) desk.submit(`j${n}`);
    const fail = (conn: string, n: number) => desk.tell({ type: "failed", connId: conn, jobId: `j${n}`, attempt: 1, retryable: false });
    desk.register("w");
    for (let n = 0; n < 3; n++) fail("w#1", n);
    desk.register("w");
    for (let n = 3; n < LIMITS.failuresInARow; n++) fail("w#2", n);
    desk.register("w");
    expect([desk.ends.size, desk.where("j5")]).toEqual([LIMITS.failuresInARow, "pending"]);
    desk.tell({ type: "disconnect", connId: "w#3" });
    desk.register("w", { record: { completed: 3, failed: LIMITS.failuresInARow, failedAt: desk.now } });
    expect(desk.where("j5")).toBe("pending");
    expect(words(desk.pass(2_000))).toContain("assign j5 1 to w#4");
    desk.tell({ type: "disconnect", connId: "w#4" });
    // Failures of a moment ago are in a row with the next one; older ones are not.
    desk.register("old", { record: { completed: 3, failed: 9, failedAt: desk.now - 60_000 } });
    desk.tell({ type: "failed", connId: "old#1", jobId: "j6", attempt: 1, retryable: false });
    expect(desk.where("j7")).toBe("assigned old 1");
    desk.tell({ type: "disconnect", connId: "old#1" });
    desk.register("recent", { record: { completed: 3, failed: 4, failedAt: desk.now - 1_000 } });
    desk.tell({ type: "failed", connId: "recent#1", jobId: "j8", attempt: 1, retryable: false });
    expect(desk.where("j9")).toBe("pending");
  });

  test("[JB4] a worker that does a job well between its failures goes on", () => {
    const desk = new Desk();
    for (let n = 0; n < 12; n++) desk.submit(`j${n}`);
    desk.register("w");
    const fail = (n: number) => desk.tell({ type: "failed", connId: "w#1", jobId: `j${n}`, attempt: 1, retryable: true });
    for (let n = 0; n < LIMITS.failuresInARow - 1; n++) fail(n);
    done(desk, "w#1", "j4");
    for (let n = 5; n < 4 + LIMITS.failuresInARow; n++) fail(n);
    expect(desk.where("j9")).toBe("assigned w 1");
  });

  test("[JB4] a new socket does not end a row of failures", () => {
    const desk = new Desk();
    for (let n = 0; n < 12; n++) desk.submit(`j${n}`);
    for (let n = 0; n < LIMITS.failuresInARow; n++) {
      desk.register("w");
      desk.tell({ type: "failed", connId: `w#${n + 1}`, jobId: `j${n}`, attempt: 1, retryable: true });
    }
    expect(desk.where(`j${LIMITS.failuresInARow}`)).toBe("pending");
  });
});

describe("any number of fresh keys", () => {
  const FRESH = Array.from({ length: 200 }, (_, n) => String(n).padStart(64, "f"));
  const jobOf = (desk: Desk): LiveJob => {
    const job = desk.state.jobs.get("j");
    if (job === undefined) throw new Error("no job j");
    return job;
  };
  /** What a job remembers of them, and what it costs to write that down. */
  const isBounded = (desk: Desk): void => {
    const job = jobOf(desk);
    expect(job.holders.length).toBeLessThanOrEqual(job.attempts + LIMITS.startedRejections);
    expect(job.denials.length).toBeLessThanOrEqual(4);
    expect(Math.max(job.tried.size, job.struck.size)).toBeLessThanOrEqual(LIMITS.keysPerJob + LIMITS.attempts);
    expect(JSON.stringify(snapshotOf(job)).length).toBeLessThan(4 * KiB);
  };

  test("[WS9, JB4, LM1] reject a job: it remembers the last of them, none held it, and an honest worker gets it at once and completes it", () => {
    const desk = new Desk();
    desk.submit("j");
    for (const key of FRESH) {
      expect(words(desk.register(key, { network: "one" }))).toBe(`assign j 1 to ${key}#1`);
      desk.tell({ type: "reject", connId: `${key}#1`, jobId: "j" });
      desk.tell({ type: "disconnect", connId: `${key}#1` });
      isBounded(desk);
    }
    expect(words(desk.register("honest"))).toBe("assign j 1 to honest#1");
    for (const key of [FRESH[0], FRESH.at(-1)]) {
      desk.register(String(key));
      expect(words(done(desk, `${key}#2`, "j"))).toBe("rejected: not_assigned");
    }
    expect(words(done(desk, "honest#1", "j"))).toBe("accepted");
  });

  test("[WS9, LM1] acknowledge a job and then reject it: the first eight use no attempt, each later one uses one, so few keys held it", () => {
    const desk = new Desk();
    desk.submit("j");
    const rejects = (key: string, started = true) => {
      const assigned = words(desk.register(key));
      const attempt = jobOf(desk).attempts;
      if (started) desk.tell({ type: "ack", connId: `${key}#1`, jobId: "j", attempt });
      desk.tell({ type: "reject", connId: `${key}#1`, jobId: "j" });
      desk.tell({ type: "disconnect", connId: `${key}#1` });
      isBounded(desk);
      return assigned;
    };
    const attempts = [...Array.from({ length: LIMITS.startedRejections + 1 }, () => 1), 2];
    for (const [n, attempt] of attempts.entries()) expect(rejects(FRESH[n] ?? "")).toBe(`assign j ${attempt} to ${FRESH[n]}#1`);
    // A worker that never started it still uses none.
    expect(rejects("busy", false)).toBe("assign j 3 to busy#1");
    expect(words(desk.register("honest"))).toBe("assign j 3 to honest#1");
    expect(words(done(desk, "honest#1", "j"))).toBe("accepted");
  });

  test("[JB11, LM1] of any number of networks deny a job: it remembers as many as it takes to end it, and a proven worker is still asked", () => {
    const desk = new Desk();
    desk.register("busy");
    desk.submit("other");
    desk.submit("j");
    for (const key of FRESH) {
      // Each hangs up before the next one comes.
      desk.register(key, { record: {}, context: 4096 });
      expect(desk.where("j")).toBe(`assigned ${key} 1`);
      desk.tell({ type: "reject", connId: `${key}#1`, jobId: "j", tooLong: true });
      desk.tell({ type: "disconnect", connId: `${key}#1` });
      isBounded(desk);
    }
    expect(words(done(desk, "busy#1", "other"))).toBe("accepted, assign j 1 to busy#1");
    expect(words(done(desk, "busy#1", "j"))).toBe("accepted");
  });

  test("[RC4, LM1] send results of a job that they never held: it remembers some of them, and a holder's strike too", () => {
    const desk = new Desk();
    desk.register("holder");
    desk.submit("j");
    for (const key of FRESH) {
      desk.register(key, { record: {} });
      expect(words(desk.tell({ type: "complete", connId: `${key}#1`, jobId: "j", attempt: undefined, verdict: "valid" }))).toBe("rejected: not_assigned");
      isBounded(desk);
    }
    desk.tell({ type: "complete", connId: "holder#1", jobId: "j", attempt: 1, verdict: "invalid_receipt" });
    expect(jobOf(desk).struck.has("holder")).toBe(true);
    isBounded(desk);
  });
});

describe("privacy and stake", () => {
  const secret = { privacyClass: "PRIVATE", trustedKeys: ["own"] } as const;

  test("[JB8] PRIVATE without a paired worker connected fails at commit; with a busy one it waits", () => {
    const desk = new Desk();
    desk.register("other");
    desk.submit("a", secret);
    expect(desk.where("a")).toBe("failed no_trusted_worker");
    desk.register("own");
    desk.submit("b", secret);
    desk.submit("c", secret);
    expect([desk.where("b"), desk.where("c")]).toEqual(["assigned own 1", "pending"]);
  });

  test("[JB8] a paired worker without the capability or the tier does not count", () => {
    const desk = new Desk({ stake: true });
    desk.register("own", { capabilities: ["TASK"], tier: "Open" });
    desk.submit("llm", { ...secret, jobType: "LLM_INFER" });
    desk.submit("fast", { ...secret, policy: "FAST" });
    desk.submit("cheap", secret);
    expect(["llm", "fast", "cheap"].map((id) => desk.where(id))).toEqual(["failed no_trusted_worker", "failed no_trusted_worker", "assigned own 1"]);
  });

  test("[WS5, JB8] a worker that may be a stranger with a paired key gets no PRIVATE job of it, neither a new one nor one that the key holds", () => {
    for (const listed of [{}, { resume: [{ jobId: "j", attempt: 1 }] }]) {
      const desk = new Desk();
      desk.register("own");
      desk.submit("j", secret);
      desk.tell({ type: "disconnect", connId: "own#1" });
      desk.register("own", { authenticated: false, publicOnly: true, ...listed });
      expect(desk.where("j")).toBe("pending");
      desk.submit("secret", secret);
      desk.submit("open");
      expect([desk.where("secret"), desk.where("open")]).toEqual(["failed no_trusted_worker", "assigned own 1"]);
      desk.register("own");
      desk.submit("next", secret);
      expect(desk.where("next")).toBe("pending");
    }
  });

  test("[JB8] after a late pairing the worker gets the waiting jobs in their order [JB3]", () => {
    const desk = new Desk();
    desk.register("own");
    desk.submit("first", secret);
    desk.submit("cheap", secret);
    desk.submit("fast", { ...secret, policy: "FAST" });
    desk.register("new");
    expect(words(desk.tell({ type: "paired", userId: "ann", key: "new" }))).toBe("assign fast 1 to new#1");
    expect(words(desk.tell({ type: "paired", userId: "bob", key: "new" }))).toBe("");
  });

  test("[JB8] a pairing that comes while the job is leased counts after the requeue", () => {
    const desk = new Desk();
    desk.register("own");
    desk.submit("j", secret);
    desk.register("new");
    // It is saved, because the hub may lose its memory before the requeue.
    expect(desk.tell({ type: "paired", userId: "ann", key: "new" }).rows).toEqual([{ type: "save", jobId: "j" }]);
    expect(words(fail(desk, "own#1", "j"))).toBe("assign j 2 to new#1");
  });

  test.each([
    ["Open", "pending"],
    ["Verified", "assigned w 1"],
    ["Sentinel", "assigned w 1"],
  ] as const)("[ST1] FAST on tier %s with stake: %s", (tier, where) => {
    const desk = new Desk({ stake: true });
    desk.register("w", { tier });
    desk.submit("j", { policy: "FAST" });
    expect(desk.where("j")).toBe(where);
  });

  test("[ST1] without a stake source any worker takes FAST; with one, Open takes CHEAP", () => {
    const free = new Desk();
    free.register("w", { tier: "Open" });
    expect(words(free.submit("j", { policy: "FAST" }))).toBe("assign j 1 to w#1");
    const staked = new Desk({ stake: true });
    staked.register("w", { tier: "Open" });
    expect(words(staked.submit("j"))).toBe("assign j 1 to w#1");
  });
});
