import { describe, expect, it } from "vitest";
import { deeds, notes, sent, SessionBench } from "./support/session-bench.ts";

/** A registered worker whose LLM runtime works for another coordinator. */
function sharing(): SessionBench {
  const bench = new SessionBench();
  bench.goOnline();
  bench.apply({ type: "runtime", taken: true });
  return bench;
}

const REJECTED = { type: "job_reject", job_id: "job-1", reason: "busy" };

describe("an LLM job while the runtime works for another coordinator", () => {
  it("[WS9] is not acknowledged, because it does not run", () => {
    const effects = sharing().assignLlm();
    expect(sent(effects)).toEqual([]);
    expect(deeds(effects)).toEqual([]);
    expect(notes(effects)).toEqual([{ type: "job_waiting", job_id: "job-1", attempt: 1 }]);
  });

  it("[WS9] runs and is acknowledged as soon as the runtime is free", () => {
    const bench = sharing();
    bench.assignLlm();
    bench.pass(2_900);
    const effects = bench.apply({ type: "runtime", taken: false });
    expect(sent(effects)).toEqual([{ type: "job_ack", job_id: "job-1", attempt: 1 }]);
    expect(deeds(effects)).toEqual(["run"]);
  });

  it("[WS9] is rejected as busy after 3 s, before the 5 s for its acknowledgement are over", () => {
    const bench = sharing();
    bench.assignLlm();
    expect(sent(bench.pass(2_999))).toEqual([]);
    expect(sent(bench.pass(1))).toEqual([REJECTED]);
    expect(deeds(bench.apply({ type: "runtime", taken: false }))).toEqual([]);
  });

  it("[WS9] that is assigned again does not wait longer; another job is rejected", () => {
    const bench = sharing();
    bench.assignLlm();
    bench.pass(2_000);
    expect(bench.assignLlm()).toEqual([]);
    expect(sent(bench.assignLlm("job-2"))).toEqual([{ type: "job_reject", job_id: "job-2", reason: "busy" }]);
    expect(sent(bench.pass(1_000))).toEqual([REJECTED]);
  });

  it("[WS11] that is cancelled is forgotten", () => {
    const bench = sharing();
    bench.assignLlm();
    bench.receive({ type: "job_cancel", job_id: "job-1", attempt: 1, reason: "cancelled" });
    expect(deeds(bench.apply({ type: "runtime", taken: false }))).toEqual([]);
    expect(sent(bench.pass(4_000))).toEqual([]);
  });

  it("[WS10] is lost with the socket and not listed in resume: it never began", () => {
    const bench = sharing();
    bench.assignLlm();
    bench.close(1006);
    expect(deeds(bench.apply({ type: "runtime", taken: false }))).toEqual([]);
    bench.pass(5_000);
    const register = sent(bench.goOnline()).find(({ type }) => type === "register") ?? sent(bench.effects).findLast(({ type }) => type === "register");
    expect(register).toMatchObject({ resume: [] });
    expect(deeds(bench.apply({ type: "runtime", taken: false }))).toEqual([]);
  });

  it("[WS11] is rejected when the worker leaves", () => {
    const bench = sharing();
    bench.assignLlm();
    const effects = bench.apply({ type: "drain" });
    expect(sent(effects)).toEqual([{ type: "drain" }, { ...REJECTED, reason: "draining" }]);
    expect(notes(effects)).toContainEqual({ type: "job_rejected", job_id: "job-1", reason: "draining" });
  });

  it("[WS3] is rejected when there is no runtime any more", () => {
    const bench = sharing();
    bench.assignLlm();
    bench.apply({ type: "announce", profile: { ...bench.state.profile, capabilities: ["TASK"] } });
    expect(sent(bench.apply({ type: "runtime", taken: false }))).toEqual([{ ...REJECTED, reason: "unsupported_job_type" }]);
  });

  it("[JB10] is rejected when the runtime has another model by then", () => {
    const bench = sharing();
    bench.assignLlm("job-1", { payload: { prompt: "hello", model: "tiny" } });
    bench.apply({ type: "announce", profile: { ...bench.state.profile, models: ["large"] } });
    expect(sent(bench.apply({ type: "runtime", taken: false }))).toEqual([{ ...REJECTED, reason: "no_such_model" }]);
  });

  it("does not keep a task waiting", () => {
    expect(sent(sharing().assign())).toEqual([{ type: "job_ack", job_id: "job-1", attempt: 1 }]);
  });
});

describe("a machine that slept", () => {
  function asleep(bench: SessionBench, ms: number): void {
    bench.slept += ms;
  }

  it("[WS6] sends a heartbeat at once, and closes a connection that does not answer within 5 s", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.pass(3_000);
    asleep(bench, 3_600_000);
    const effects = bench.pass(10_000, { acks: false });
    expect(notes(effects)).toContainEqual({ type: "woke", slept_ms: 3_600_000 });
    expect(notes(bench.pass(3_000, { acks: false }))).toContainEqual(expect.objectContaining({ type: "offline", cause: "the coordinator is silent" }));
  });

  it("[WS6] closes it too if the first thing that it reads is a frame from before the sleep", () => {
    const bench = new SessionBench();
    bench.goOnline();
    asleep(bench, 60_000);
    expect(notes(bench.receive({ type: "heartbeat_ack" }))).toContainEqual({ type: "woke", slept_ms: 60_000 });
    expect(notes(bench.pass(5_000, { acks: false }))).toContainEqual(expect.objectContaining({ type: "offline", cause: "the coordinator is silent" }));
  });

  it("[WS6] keeps a connection that answers", () => {
    const bench = new SessionBench();
    bench.goOnline();
    asleep(bench, 60_000);
    bench.pass(60_000);
    expect(bench.state.link.kind).toBe("online");
    expect(notes(bench.effects).filter(({ type }) => type === "woke")).toHaveLength(1);
  });

  it("[WS4] reconnects at once if it was waiting to reconnect", () => {
    const bench = new SessionBench({ random: 0.99 });
    bench.goOnline();
    bench.close(1006);
    asleep(bench, 60_000);
    bench.apply({ type: "time" });
    expect(bench.state.link.kind).toBe("dialling");
  });

  it("[WS4] stays parked, because the coordinator counts that time", () => {
    const bench = new SessionBench({ random: 0 });
    bench.goOnline();
    bench.close(4003);
    asleep(bench, 30_000);
    bench.apply({ type: "time" });
    expect(bench.state.link).toMatchObject({ kind: "waiting", parked: true });
  });

  it("a clock that is set back, or a little forward, does not count as sleep", () => {
    const bench = new SessionBench();
    bench.goOnline();
    asleep(bench, -3_600_000);
    bench.pass(20_000);
    asleep(bench, 4_999);
    bench.pass(20_000);
    expect(notes(bench.effects).filter(({ type }) => type === "woke")).toEqual([]);
  });
});

it("reports the progress of a long run once a second", () => {
  const bench = new SessionBench();
  bench.goOnline();
  bench.assignLlm();
  for (let i = 0; i < 25; i++) {
    bench.pass(100);
    bench.apply({ type: "progress", jobId: "job-1", attempt: 1, delta: "four" });
  }
  expect(notes(bench.effects).filter(({ type }) => type === "job_progress")).toEqual([
    { type: "job_progress", job_id: "job-1", attempt: 1, ms: 1_000, chars: 40 },
    { type: "job_progress", job_id: "job-1", attempt: 1, ms: 2_000, chars: 80 },
  ]);
});
