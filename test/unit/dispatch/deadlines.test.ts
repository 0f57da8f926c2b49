import { describe, expect, test } from "vitest";
import { nextDue } from "../../../src/coordinator/dispatch/index.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { Desk, START, words } from "./desk.ts";

const J1 = { jobId: "j", attempt: 1 };

function assigned(acks = true): Desk {
  const desk = new Desk();
  desk.register("w", { acks });
  if (!acks) desk.pass(TIMING.arrival);
  desk.submit("j");
  return desk;
}

describe("times of a job", () => {
  test("[JB5] with no worker it fails with no_eligible_worker after 30 s, not before", () => {
    const desk = new Desk();
    desk.submit("j");
    desk.pass(29_999);
    expect(desk.where("j")).toBe("pending");
    desk.pass(1);
    expect(desk.where("j")).toBe("failed no_eligible_worker");
    expect(nextDue(desk.state)).toBeNull();
  });

  test("[JB4] after an outage a job that waits gets a new window, long enough for its workers to come back; its total time stays, and so does what is leased", () => {
    const desk = assigned();
    desk.submit("waits");
    desk.pass(TIMING.ack - 1);
    const before = nextDue(desk.state);
    desk.now += 20_000;
    desk.tell({ type: "outage" });
    expect(desk.where("j")).toBe("assigned w 1");
    expect(nextDue(desk.state)).toBe(before);
    const idle = new Desk();
    idle.submit("waits");
    idle.now += 100_000;
    idle.tell({ type: "outage" });
    idle.pass(TIMING.outageWindow - 1);
    expect(idle.where("waits")).toBe("pending");
    idle.pass(1);
    expect(idle.where("waits")).toBe("failed no_eligible_worker");
    const late = new Desk();
    late.submit("waits");
    late.now += TIMING.total - 1;
    late.tell({ type: "outage" });
    late.pass(1);
    expect(late.where("waits")).toBe("failed deadline_exceeded");
  });

  test("[WS9] a worker that announced ack and does not acknowledge in 5 s loses the job and is told", () => {
    const desk = assigned();
    expect(words(desk.pass(4_999))).toBe("");
    expect(words(desk.pass(1))).toBe("cancel j 1 on w#1: ack_timeout");
    expect(desk.where("j")).toBe("pending");
  });

  test("[WS9] a worker that never acks keeps it for the execution time", () => {
    const desk = assigned(false);
    desk.pass(29_999);
    expect(desk.where("j")).toBe("assigned w 1");
    expect(words(desk.pass(1))).toBe("cancel j 1 on w#1: execution_timeout");
  });

  test.each([
    ["TASK", 30_000],
    ["LLM_INFER", 60_000],
  ] as const)("[JB4] a %s may run for %i ms from its last sign", (jobType, time) => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j", { jobType });
    desk.pass(3_000);
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.pass(20_000);
    desk.tell({ type: "progress", connId: "w#1", ...J1 });
    desk.pass(time - 1);
    expect(desk.where("j")).toBe("running w 1");
    desk.pass(1);
    expect(desk.where("j")).toBe("pending");
  });

  test("[JB4] progress renews the time, but never past 180 s in all", () => {
    const desk = assigned();
    for (let second = 0; second < 179; second++) {
      desk.tell({ type: "progress", connId: "w#1", ...J1 });
      desk.pass(1_000);
    }
    expect(desk.where("j")).toBe("running w 1");
    expect(words(desk.pass(1_000))).toBe("cancel j 1 on w#1: deadline_exceeded");
    expect(desk.where("j")).toBe("failed deadline_exceeded");
  });

  test("[JB4] a late alarm does not give a freed worker a job whose total deadline has passed too", () => {
    const desk = assigned();
    desk.pass(500);
    desk.register("v");
    desk.submit("late");
    for (let second = 0; second < 175; second++) {
      desk.tell({ type: "progress", connId: "w#1", ...J1 });
      desk.tell({ type: "progress", connId: "v#1", jobId: "late", attempt: 1 });
      desk.pass(1_000);
    }
    desk.tell({ type: "failed", connId: "v#1", jobId: "late", attempt: 1, retryable: true });
    desk.tell({ type: "disconnect", connId: "v#1" });
    expect([desk.where("j"), desk.where("late")]).toEqual(["running w 1", "pending"]);
    desk.now += 10_000;
    expect(words(desk.tell({ type: "time" }))).toBe("cancel j 1 on w#1: deadline_exceeded");
    expect([desk.where("j"), desk.where("late")]).toEqual(["failed deadline_exceeded", "failed deadline_exceeded"]);
  });

  test("[JB4] a lost socket keeps the lease for 15 s", () => {
    const desk = assigned();
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(14_999);
    expect(desk.where("j")).toBe("assigned w 1 gone");
    desk.pass(1);
    expect(desk.where("j")).toBe("pending");
  });

  test("[WS10] [JB4] a worker whose execution time ended while its socket was gone has a moment to send its result", () => {
    const desk = assigned();
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.pass(TIMING.executeTask - 1_000);
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(10_000);
    desk.register("w", { resume: [J1] });
    desk.pass(TIMING.ack - 1);
    expect(desk.where("j")).toBe("running w 1");
    expect(words(desk.pass(1))).toBe("cancel j 1 on w#2: execution_timeout");
  });

  test("[JB4] the total deadline counts while the socket is gone", () => {
    const desk = assigned();
    for (let second = 0; second < 170; second++) {
      desk.tell({ type: "progress", connId: "w#1", ...J1 });
      desk.pass(1_000);
    }
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(10_000);
    expect(desk.where("j")).toBe("failed deadline_exceeded");
    expect(words(desk.register("w", { resume: [J1] }))).toBe("cancel j 1 on w#2: not_assigned");
  });

  test("[JB4] after a requeue a new claim window begins, and at its end the job fails with the cause of the last attempt [JB5]", () => {
    const desk = assigned();
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.pass(20_000);
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(15_000 + 29_999);
    expect(desk.where("j")).toBe("pending");
    desk.pass(1);
    expect(desk.where("j")).toBe("failed worker_lost");
  });

  test("[JB4] three attempts, then the last cause", () => {
    const desk = new Desk();
    for (const key of ["a", "b", "c", "d"]) desk.register(key);
    desk.submit("j");
    const seen: string[] = [];
    for (let attempt = 1; attempt <= 3; attempt++) {
      const connId = desk.state.workers.get(desk.where("j").split(" ")[1] ?? "")?.connId ?? "";
      seen.push(connId);
      desk.tell({ type: "failed", connId, jobId: "j", attempt, retryable: true });
    }
    expect(seen).toEqual(["a#1", "b#1", "c#1"]);
    expect(desk.where("j")).toBe("failed worker_error");
  });

  test("[JB4] the end names each key that had the job once, and the one that had it last at the end", () => {
    const desk = new Desk();
    for (const key of ["a", "b"]) desk.register(key);
    desk.submit("j");
    const fail = (key: string, attempt: number) => desk.tell({ type: "failed", connId: `${key}#1`, jobId: "j", attempt, retryable: true });
    fail("a", 1);
    fail("b", 2);
    desk.tell({ type: "disconnect", connId: "b#1" });
    desk.pass(TIMING.retryTick);
    expect(fail("a", 3).rows).toContainEqual(expect.objectContaining({ type: "ended", holders: ["b", "a"] }));
  });

  test("[JB5] a worker that rejects at every tick does not keep the job past its 30 s", () => {
    const desk = assigned();
    for (let step = 0; step < 400 && desk.state.jobs.has("j"); step++) {
      desk.tell({ type: "reject", connId: "w#1", jobId: "j" });
      desk.pass(100);
    }
    expect(desk.where("j")).toBe("failed no_eligible_worker");
    expect(desk.now - START).toBeLessThan(31_000);
  });

  test("[JB2] the alarm is due at most every 2 s while a job waits, and never without work", () => {
    const desk = new Desk();
    expect(nextDue(desk.state)).toBeNull();
    desk.submit("j");
    expect(nextDue(desk.state)).toBe(START + 2_000);
    desk.tell({ type: "cancel", jobId: "j" });
    expect(nextDue(desk.state)).toBeNull();
  });
});

describe("silence [WS6]", () => {
  test("[WS6] a worker that is silent for more than 25 s is not claimed, until it sends something again", () => {
    const desk = new Desk();
    desk.register("w");
    desk.silence("w#1");
    desk.pass(25_001);
    expect(words(desk.submit("j"))).toBe("");
    desk.hear("w#1");
    expect(words(desk.tell({ type: "heard", connId: "w#1" }))).toBe("assign j 1 to w#1");
  });

  test("[WS6] a heartbeat that the platform answered is noticed by the tick", () => {
    const desk = new Desk();
    desk.register("w");
    desk.silence("w#1");
    desk.pass(25_001);
    desk.submit("j");
    desk.hear("w#1");
    expect(words(desk.pass(2_000))).toBe("assign j 1 to w#1");
  });

  test("[WS6] the sweep closes a socket that was silent for 30 s with 4008 and gives its job to another worker at once", () => {
    const desk = new Desk();
    desk.register("w");
    desk.pass(1_000);
    desk.submit("j", { jobType: "LLM_INFER" });
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.silence("w#1");
    desk.register("v");
    expect(words(desk.pass(60_000))).toContain("close w#1 4008, assign j 2 to v#1");
  });

  test("[JB4] a silent worker that has not tried a job does not stop the other one from a second attempt", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.register("v");
    desk.silence("v#1");
    desk.pass(4_000);
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.pass(22_000);
    desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true });
    expect(desk.where("j")).toBe("pending");
    expect(words(desk.pass(2_000))).toBe("assign j 2 to w#1");
  });
});
