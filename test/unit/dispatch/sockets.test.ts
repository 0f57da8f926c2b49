import { describe, expect, test } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import { Desk, NOTHING, words } from "./desk.ts";

const J1 = { jobId: "j", attempt: 1 };

describe("one socket per key [WS7]", () => {
  test("[WS7] a late close of a replaced socket changes nothing", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.register("w");
    expect(desk.tell({ type: "disconnect", connId: "w#1" })).toEqual(NOTHING);
    expect(desk.where("j")).toBe("assigned w 1");
    expect(desk.tell({ type: "complete", connId: "w#1", ...J1, verdict: "valid" })).toEqual(NOTHING);
  });

  test("[WS7, JB3] a new socket of a key keeps its turn, whatever is stored of the key", () => {
    const desk = new Desk();
    for (const key of ["v", "w"]) desk.register(key);
    for (const key of ["v", "w"]) {
      desk.pass(1_000);
      desk.submit(key);
      desk.tell({ type: "complete", connId: `${key}#1`, jobId: key, attempt: 1, verdict: "valid" });
    }
    // What is stored of the key is from the last time that it left.
    desk.register("w", { lastUsedAt: 1 });
    desk.submit("next");
    expect(desk.where("next")).toBe("assigned v 1");
  });

  test("[WS10] a worker that reconnects after the grace time gets its job back if it still waits, without a new attempt", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(16_000);
    expect(words(desk.register("w", { resume: [J1] }))).toBe("");
    expect(desk.where("j")).toBe("running w 1");
  });

  test("[WS10, JB3] of two jobs that a worker lost one after the other and lists, it gets one back", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(16_000);
    desk.register("w", { resume: [] });
    desk.submit("k");
    expect(desk.where("k")).toBe("assigned w 1");
    desk.tell({ type: "disconnect", connId: "w#2" });
    desk.pass(16_000);
    expect([desk.where("j"), desk.where("k")]).toEqual(["pending", "pending"]);
    expect(words(desk.register("w", { resume: [J1, { jobId: "k", attempt: 1 }] }))).toBe("cancel k 1 on w#3: not_assigned");
    expect([desk.where("j"), desk.where("k")]).toEqual(["running w 1", "pending"]);
  });

  test("[WS10] a listed job that another worker has is cancelled before this worker gets a new one", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(16_000);
    desk.register("v");
    desk.submit("next");
    expect(desk.where("j")).toBe("assigned v 2");
    expect(words(desk.register("w", { resume: [J1] }))).toBe("cancel j 1 on w#2: not_assigned, assign next 1 to w#2");
  });

  test.each([
    ["failed it", (desk: Desk): void => void desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true })],
    ["sent an invalid receipt", (desk: Desk): void => void desk.tell({ type: "complete", connId: "w#1", ...J1, verdict: "invalid_receipt" })],
    ["sent too much", (desk: Desk): void => void desk.tell({ type: "oversized", connId: "w#1", jobId: "j" })],
    ["ran out of time", (desk: Desk): void => void desk.pass(20_000)],
  ] as const)("[WS10] [JB4] a worker that %s does not get the job back by listing it, but at a tick, if no other is there", (_, lose) => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.pass(10_000);
    desk.register("v");
    desk.submit("other");
    desk.tell({ type: "ack", connId: "v#1", jobId: "other", attempt: 1 });
    lose(desk);
    for (let socket = 2; socket <= 4; socket++) {
      expect(words(desk.register("w", { resume: [J1] }))).toContain(`cancel j 1 on w#${socket}: not_assigned`);
      expect(desk.where("j")).toBe("pending");
    }
    desk.tell({ type: "disconnect", connId: "v#1" });
    desk.pass(2_000);
    expect(desk.where("j")).toBe("assigned w 2");
  });

  test("[JB6] a late result of an earlier holder counts, and the present holder is cancelled, even if it is the same worker", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.pass(7_000);
    expect(desk.where("j")).toBe("assigned w 2");
    expect(words(desk.tell({ type: "complete", connId: "w#1", ...J1, verdict: "valid" }))).toBe("accepted, cancel j 2 on w#1: completed");
  });

  test("[WS11] a draining worker gets no new job; after its job it gets drained and is closed", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "drain", connId: "w#1" });
    desk.submit("next");
    expect(words(desk.tell({ type: "complete", connId: "w#1", ...J1, verdict: "valid" }))).toBe("accepted, drained w#1, close w#1 1000");
    expect(desk.where("next")).toBe("pending");
  });

  test("[WS11] a draining worker that fails its job leaves too, and the job waits", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "drain", connId: "w#1" });
    expect(words(desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true }))).toBe("drained w#1, close w#1 1000");
    expect(desk.where("j")).toBe("pending");
  });
});

describe("strikes [RC4]", () => {
  const bad = (desk: Desk, jobId: string) => desk.tell({ type: "complete", connId: "w#1", jobId, attempt: undefined, verdict: "invalid_receipt" });

  test("[RC4] the third strike parks the worker: it gets no job before the close, and its job goes to another worker", () => {
    const desk = new Desk();
    desk.register("w", { strikes: 2 });
    desk.submit("j");
    desk.submit("next");
    const told = bad(desk, "j");
    expect(words(told)).toBe("rejected: invalid_receipt, tell w#1 parked for 60 s, close w#1 4003");
    expect(told.rows).toContainEqual(
      expect.objectContaining({ key: "w", record: expect.objectContaining({ strikes: 0, parks: 1, parkedUntil: desk.now + 60_000 }) }),
    );
    expect([desk.where("j"), desk.where("next")]).toEqual(["pending", "pending"]);
    expect(desk.state.jobs.get("j")?.cause).toBe("invalid_receipt");
  });

  test("[RC4] a worker that is parked for a result of a job that it never held loses the job that it holds", () => {
    const desk = new Desk();
    desk.register("v");
    desk.submit("foreign");
    desk.register("w", { strikes: 2 });
    desk.submit("own");
    expect(words(bad(desk, "foreign"))).toBe("rejected: not_assigned, tell w#1 parked for 60 s, close w#1 4003");
    expect([desk.where("foreign"), desk.where("own")]).toEqual(["assigned v 1", "pending"]);
  });

  test("[RC4] one job gives one strike at most, and a verified result removes one", () => {
    const desk = new Desk();
    desk.register("w", { strikes: 1 });
    desk.submit("j");
    bad(desk, "j");
    for (let times = 0; times < 3; times++) expect(words(bad(desk, "j"))).toBe("rejected: invalid_receipt");
    expect(desk.state.workers.get("w")?.record).toMatchObject({ strikes: 2, parks: 0, parkedUntil: 0 });
    const { rows } = desk.tell({ type: "complete", connId: "w#1", jobId: "j", attempt: undefined, verdict: "valid" });
    expect(rows).toContainEqual(expect.objectContaining({ key: "w", record: expect.objectContaining({ strikes: 1, parks: 0, parkedUntil: 0 }) }));
  });

  test("[RC4] the parking time is halved for each day since the last parking, and not doubled if the clock was set back since", () => {
    const day = 86_400_000;
    const parkedFor = (parks: number, since: number): number => {
      const desk = new Desk();
      desk.register("w");
      desk.submit("j");
      Object.assign(desk.state.workers.get("w")?.record ?? {}, { strikes: 2, parks, parkedUntil: desk.now - since });
      const told = bad(desk, "j").rows.find((row) => row.type === "record");
      return (told?.record.parkedUntil ?? 0) - desk.now;
    };
    const times = [-1, 0, day - 1, day, 2 * day, 30 * day].map((since) => parkedFor(4, since));
    expect(times).toEqual([960_000, 960_000, 960_000, 240_000, 120_000, 60_000]);
  });

  test("[RC4] with `record` an invalid receipt completes the job, unverified, and gives no strike", () => {
    const desk = new Desk({ receiptPolicy: "record" });
    desk.register("w", { strikes: 2 });
    desk.submit("j");
    const { rows } = bad(desk, "j");
    expect(rows).toContainEqual(expect.objectContaining({ type: "ended", outcome: { status: "completed", key: "w", verified: false } }));
    expect(rows.some(({ type }) => type === "record")).toBe(false);
  });
});

describe("the hub's memory is lost [JB9]", () => {
  test("[JB9] sockets that are still open take their leases back; attempts, and workers that lost a job, are still known", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true });
    desk.register("v");
    expect(desk.where("j")).toBe("assigned v 2");
    desk.forget(["w", "v"]);
    expect(desk.where("j")).toBe("assigned v 2");
    expect([...(desk.state.jobs.get("j")?.tried ?? [])]).toEqual(["w"]);
  });

  test("[JB4] a hub that sleeps every 10 s still ends an execution that hangs", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    for (let naps = 0; naps < 2; naps++) {
      desk.pass(10_000);
      desk.forget(["w"]);
    }
    expect(words(desk.pass(10_000))).toContain("execution_timeout");
  });

  test("[JB4] a hub that sleeps every 10 s still ends the grace time of a lost socket", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j", { jobType: "LLM_INFER" });
    desk.tell({ type: "disconnect", connId: "w#1" });
    desk.pass(10_000);
    desk.forget();
    desk.pass(5_000);
    expect(desk.where("j")).toBe("pending");
  });

  test("[JB4] a worker that has its job back has a whole grace time when the hub dies later: the end of the old one is not saved any more", () => {
    const desk = new Desk();
    const saved = { type: "save", jobId: "j" };
    desk.register("w");
    desk.submit("j", { jobType: "LLM_INFER" });
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    expect(desk.tell({ type: "disconnect", connId: "w#1" }).rows).toContainEqual(saved);
    expect(desk.register("w", { resume: [J1] }).rows).toContainEqual(saved);
    // A hub that sleeps beside an open socket has nothing to write when it wakes up.
    desk.forget();
    expect(desk.register("w").rows).not.toContainEqual(saved);
    desk.forget();
    expect(desk.tell({ type: "sockets_restored" }).rows).toContainEqual(saved);
    expect(desk.register("w", { resume: [J1] }).rows).toContainEqual(saved);
  });

  test("[JB4] a lease without a socket and without a saved grace time ends soon after its execution time, however often the hub sleeps", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    for (let naps = 0; naps < 4; naps++) {
      desk.forget();
      desk.pass(10_000);
    }
    expect(desk.where("j")).toBe("pending");
  });

  test("[WS9] [JB4] a job that its worker gives back after that has the rest of its claim window and no more", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.pass(4_000);
    desk.forget(["w"]);
    desk.tell({ type: "reject", connId: "w#2", jobId: "j" });
    desk.tell({ type: "disconnect", connId: "w#2" });
    desk.pass(TIMING.claimWindow - 4_000);
    expect(desk.where("j")).toBe("failed no_eligible_worker");
  });

  test.each([
    ["the execution time of a job", TIMING.executeTask, TIMING.executeTask, "pending"],
    ["the total time of a job that makes progress", TIMING.total, 1_000, "failed deadline_exceeded"],
  ])("[JB4] a clock that was set back makes %s no longer", (_, time, step, end) => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("j");
    desk.tell({ type: "ack", connId: "w#1", ...J1 });
    desk.now -= 600_000;
    desk.forget(["w"]);
    for (let passed = 0; passed < time; passed += step) {
      desk.pass(step);
      desk.tell({ type: "progress", connId: "w#2", ...J1 });
    }
    expect(desk.where("j")).toBe(end);
  });

  test("[WS11] a draining worker is still draining, and gets no new job", () => {
    const desk = new Desk();
    desk.register("w", { draining: true });
    expect(desk.state.workers.size).toBe(0);
    desk.register("w");
    desk.submit("j");
    desk.forget();
    desk.submit("next");
    desk.register("w", { draining: true });
    expect([desk.where("j"), desk.where("next")]).toEqual(["assigned w 1", "pending"]);
    expect(words(desk.tell({ type: "complete", connId: "w#3", ...J1, verdict: "valid" }))).toBe("accepted, drained w#3, close w#3 1000");
  });

  test("[JB9] two rows that claim one worker: the second job waits again", () => {
    const desk = new Desk();
    desk.register("w");
    desk.submit("a");
    desk.register("v");
    desk.submit("b");
    const other = desk.state.jobs.get("b");
    if (other?.phase.kind === "leased") other.phase.lease.key = "w";
    desk.forget();
    expect([desk.where("a"), desk.where("b")]).toEqual(["assigned w 1 gone", "pending"]);
  });
});
