import { describe, expect, it } from "vitest";
import { verdictOf } from "../../../src/worker/session/clock.ts";
import { type Effect, SESSION_TIMING } from "../../../src/worker/session/state.ts";
import { deeds, notes, sent, SessionBench } from "./support/session-bench.ts";

const MINUTE = 60_000;

/** A registered worker whose wall clock is off by so much against the coordinator's. */
function off(ms: number): SessionBench {
  const bench = new SessionBench();
  bench.slept = ms;
  bench.state.clocks = { now: 0, wall: bench.wall };
  bench.goOnline({ time: bench.coordinatorTime });
  return bench;
}

const clockNotes = (bench: SessionBench) => notes(bench.effects).filter(({ type }) => type === "clock");
const asked = (effects: readonly Effect[]) => sent(effects).filter(({ type }) => type === "register").length;
const answer = (bench: SessionBench) => bench.receive({ type: "register_ack", status: "ok", time: bench.coordinatorTime });
const rejected = [{ type: "job_reject", job_id: "job-1", reason: "clock" }];

describe("a clock against the coordinator's [WS4, RC3]", () => {
  it.each([
    ["agrees", 0, []],
    ["is off by a minute", MINUTE, []],
    ["is ahead by more", MINUTE + 1_000, [{ type: "clock", verdict: "doubtful", off_ms: MINUTE + 1_000 }]],
    ["is behind by more", -MINUTE - 1_000, [{ type: "clock", verdict: "doubtful", off_ms: -MINUTE - 1_000 }]],
    ["is 5 min ahead", 5 * MINUTE, [{ type: "clock", verdict: "refused", off_ms: 5 * MINUTE }]],
    ["is a year behind", -525_600 * MINUTE, [{ type: "clock", verdict: "refused", off_ms: -525_600 * MINUTE }]],
  ])("[WS4] that %s: the owner is told once, when the worker registers", (_, ms, told) => {
    const bench = off(ms);
    bench.pass(60_000);
    expect(clockNotes(bench)).toEqual(told);
  });

  it("[RC3] that would make its receipts invalid: the worker rejects jobs, which uses no attempt; with a smaller difference it works", () => {
    expect(sent(off(6 * MINUTE).assign())).toEqual(rejected);
    expect(sent(off(-6 * MINUTE).assign())).toEqual(rejected);
    const doubtful = off(4 * MINUTE);
    expect(deeds(doubtful.assign())).toEqual(["run"]);
    expect(verdictOf(SESSION_TIMING.keepFor, SESSION_TIMING)).toBe("refused");
  });

  it("[RC3] [RC4] that is set during a job, so that its receipt would not be valid: the job is reported as failed, which costs no strike", () => {
    const bench = off(0);
    bench.assign();
    bench.slept = -6 * MINUTE;
    const frames = sent(bench.complete());
    expect(frames.filter(({ type }) => type !== "register")).toEqual([
      expect.objectContaining({ type: "job_failed", job_id: "job-1", attempt: 1, retryable: true }),
    ]);
    expect(bench.state.unacknowledged).toEqual([]);
  });

  it("[RC3] [WS10] that is behind: a kept result is dropped when its receipt is too old for the coordinator, not for this clock", () => {
    const bench = off(-4 * MINUTE);
    bench.assign();
    bench.complete();
    bench.close(1006);
    bench.pass(MINUTE + 1_000);
    expect(sent(bench.goOnline({ time: bench.coordinatorTime })).map(({ type }) => type)).not.toContain("job_complete");
    expect(bench.state.unacknowledged).toEqual([]);
  });

  it("[WS4] that is set back to the right time: the worker takes jobs again at once", () => {
    const bench = off(6 * MINUTE);
    bench.slept = 0;
    bench.pass(10_000);
    expect(clockNotes(bench).at(-1)).toEqual({ type: "clock", verdict: "right", off_ms: 0 });
    expect(deeds(bench.assign())).toEqual(["run"]);
  });

  it("[WS4] that is set forward to the right time: the worker asks the coordinator for the time, because it may have slept, and takes jobs again", () => {
    const bench = off(-6 * MINUTE);
    bench.slept = 0;
    const asked = sent(bench.pass(10_000)).filter(({ type }) => type === "register");
    expect(asked).toHaveLength(1);
    bench.receive({ type: "register_ack", status: "ok", time: bench.coordinatorTime });
    expect(clockNotes(bench).at(-1)).toMatchObject({ verdict: "right" });
    expect(deeds(bench.assign())).toEqual(["run"]);
  });

  it("[WS4] after a sleep the clock does not count as wrong before the coordinator has told its time", () => {
    const bench = off(0);
    bench.slept = 60 * MINUTE;
    bench.coordinatorSlept = 60 * MINUTE;
    bench.pass(10_000);
    expect(deeds(bench.assign())).toContain("run");
    bench.receive({ type: "register_ack", status: "ok", time: bench.coordinatorTime });
    expect(clockNotes(bench)).toEqual([]);
  });

  it("[WS4] that is set wrong while the worker is online: no job is taken at once, and the owner is told when the coordinator has confirmed it", () => {
    const bench = off(0);
    bench.slept = -6 * MINUTE;
    expect(asked(bench.pass(10_000))).toBe(1);
    expect(sent(bench.assign())).toEqual(rejected);
    expect(clockNotes(bench)).toEqual([]);
    answer(bench);
    expect(clockNotes(bench)).toEqual([{ type: "clock", verdict: "refused", off_ms: -6 * MINUTE }]);
    expect(sent(bench.assign())).toEqual(rejected);
  });

  it("[WS4] [LM2] beside a coordinator whose clock was wrong and is set right: the worker asks for the time once a minute, and takes jobs again", () => {
    const bench = new SessionBench();
    bench.coordinatorSlept = 60 * MINUTE;
    bench.goOnline({ time: bench.coordinatorTime });
    expect(sent(bench.assign())).toEqual(rejected);
    expect(asked(bench.pass(MINUTE))).toBe(1);
    answer(bench);
    bench.coordinatorSlept = 0;
    expect(asked(bench.pass(MINUTE))).toBe(1);
    answer(bench);
    expect(clockNotes(bench).map((note) => "verdict" in note && note.verdict)).toEqual(["refused", "right"]);
    expect(deeds(bench.assign())).toEqual(["run"]);
    expect(asked(bench.pass(10 * MINUTE))).toBe(0);
  });

  it("[WS4] beside a clock of the session that stands still now and then: the owner is not told that the machine's clock is wrong", () => {
    const bench = off(0);
    for (let stalls = 0; stalls < 100; stalls++) {
      bench.slept += 4_000;
      bench.coordinatorSlept += 4_000;
      if (asked(bench.pass(10_000)) > 0) answer(bench);
    }
    expect(clockNotes(bench)).toEqual([]);
    expect(deeds(bench.assign())).toEqual(["run"]);
  });

  it("[WS4] beside a coordinator that does not tell its time: the worker works as before", () => {
    const bench = new SessionBench();
    bench.slept = 60 * MINUTE;
    bench.goOnline();
    expect(deeds(bench.assign())).toEqual(["run"]);
    expect(clockNotes(bench)).toEqual([]);
  });

  it("[JB4] the deadline of a job counts by the coordinator's clock", () => {
    const bench = off(2 * MINUTE + 30_000);
    const deadline = new Date(Date.parse(bench.coordinatorTime) + 170_000).toISOString();
    bench.assignLlm("job-1", { deadline });
    for (let at = 0; at < 160_000; at += 20_000) {
      bench.pass(20_000);
      bench.apply({ type: "progress", jobId: "job-1", attempt: 1, delta: "x" });
    }
    expect(bench.state.job).not.toBeNull();
    bench.pass(15_000);
    expect(bench.state.job).toBeNull();
  });
});

describe("a live socket that is parked [WS4]", () => {
  it("[WS4] stays away for the time in the frame before the close 4003", () => {
    const bench = new SessionBench({ random: 0 });
    bench.goOnline();
    bench.receive({ type: "error", code: "parked", message: "too many results were rejected", retry_after_s: 480 });
    const [told] = notes(bench.close(4003));
    expect(told).toMatchObject({ type: "offline", code: 4003, cause: "parked", retry_in_ms: 480_000 });
    bench.pass(480_000);
    bench.goOnline();
    expect(notes(bench.close(4003))[0]).toMatchObject({ retry_in_ms: 60_000 });
  });

  it("[WS10] tells the owner which check a rejected result failed", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.assign();
    bench.complete();
    const message = "hash: expected sha256:00 of the output as JSON.stringify writes it";
    const effects = bench.receive({ type: "job_complete_ack", job_id: "job-1", status: "rejected", error: "invalid_receipt", message });
    expect(notes(effects)).toContainEqual({ type: "job_acknowledged", job_id: "job-1", status: "rejected", error: "invalid_receipt", message });
  });
});
