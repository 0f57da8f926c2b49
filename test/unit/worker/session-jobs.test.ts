import { describe, expect, it } from "vitest";
import { deeds, notes, PROFILE, sent, SessionBench } from "./support/session-bench.ts";

function online(options?: ConstructorParameters<typeof SessionBench>[0]): SessionBench {
  const bench = new SessionBench(options);
  bench.goOnline();
  return bench;
}

function progress(bench: SessionBench, delta: string, attempt = 1) {
  return bench.apply({ type: "progress", jobId: "job-1", attempt, delta });
}

/** Runs as many jobs to their end; nothing is acknowledged. */
function finish(bench: SessionBench, jobs: number): void {
  for (let n = 1; n <= jobs; n++) {
    bench.assign(`job-${n}`);
    bench.complete(`job-${n}`);
  }
}

function acknowledge(bench: SessionBench, jobId: string) {
  return bench.receive({ type: "job_complete_ack", job_id: jobId, status: "accepted" });
}

/** The jobs whose results were sent. */
function results(effects: Parameters<typeof sent>[0]): unknown[] {
  return sent(effects).flatMap((frame) => (frame["type"] === "job_complete" ? [frame["job_id"]] : []));
}

describe("taking jobs", () => {
  it("[WS9] acknowledges at once, then runs", () => {
    const effects = online().assign();
    expect(sent(effects)).toEqual([{ type: "job_ack", job_id: "job-1", attempt: 1 }]);
    expect(effects.findIndex((effect) => effect.type === "send")).toBeLessThan(effects.findIndex((effect) => effect.type === "run"));
  });

  it("[WS8] takes a job_assign with only the five fields of the specification as attempt 1", () => {
    expect(sent(online().assign("j", { attempt: undefined, deadline: undefined }))).toEqual([{ type: "job_ack", job_id: "j", attempt: 1 }]);
  });

  it("[WS9] the same assignment again is acknowledged again and not run again", () => {
    const bench = online();
    bench.assign();
    const effects = bench.assign();
    expect(sent(effects)).toEqual([{ type: "job_ack", job_id: "job-1", attempt: 1 }]);
    expect(deeds(effects)).toEqual([]);
  });

  it("[JB6] a newer attempt of the running job replaces it, an older one changes nothing", () => {
    const bench = online();
    bench.assign("job-1", { attempt: 2 });
    expect(bench.assign("job-1", { attempt: 1 })).toEqual([]);
    expect(deeds(bench.assign("job-1", { attempt: 3 }))).toEqual(["abort", "run"]);
    expect(bench.state.job?.attempt).toBe(3);
  });

  it.each([
    ["busy", {}, true],
    ["unsupported_job_type", { job_type: "RENDER" }, false],
    ["invalid_payload", { payload: { task_type: "classify" } }, false],
    ["invalid_payload", { job_type: "LLM_INFER", payload: { input: "x" } }, false],
    ["unsupported_task_type", { payload: { task_type: "translate", input: "x" } }, false],
    ["no_such_model", { job_type: "LLM_INFER", payload: { prompt: "x", model: "large" } }, false],
  ])("[WS9] rejects what it cannot do: %s", (reason, over, busy) => {
    const bench = online();
    if (busy) bench.assign("other");
    expect(sent(bench.assign("job-1", over))).toEqual([{ type: "job_reject", job_id: "job-1", reason }]);
  });

  it.each([["tiny"], ["TINY"], ["auto"], ["Auto"], [null]])("[JB10] runs a job for its model, or for any: %s", (model) => {
    expect(deeds(online().assignLlm("job-1", { payload: { prompt: "x", model } }))).toEqual(["run"]);
  });

  it("[WS9] a worker without a runtime rejects an LLM job", () => {
    const bench = online({ profile: { ...PROFILE, capabilities: ["TASK"] } });
    expect(sent(bench.assignLlm())).toEqual([{ type: "job_reject", job_id: "job-1", reason: "unsupported_job_type" }]);
  });

  it("[WS9] rejects an assignment that was sent before its drain arrived", () => {
    const bench = online();
    bench.apply({ type: "drain" });
    expect(sent(bench.assign())).toEqual([{ type: "job_reject", job_id: "job-1", reason: "draining" }]);
  });
});

describe("cancelling", () => {
  it("[WS11] stops the run and forgets the job; a late result of the run changes nothing", () => {
    const bench = online();
    bench.assign();
    expect(deeds(bench.receive({ type: "job_cancel", job_id: "job-1", attempt: 1, reason: "completed" }))).toEqual(["abort"]);
    expect(bench.complete()).toEqual([]);
    expect(progress(bench, "x")).toEqual([]);
    expect(deeds(bench.assign("job-2"))).toEqual(["run"]);
  });

  it("[JB6] a late result of an older attempt is not used for a newer attempt of the same job", () => {
    const bench = online();
    bench.assign("job-1", { attempt: 1 });
    bench.assign("job-1", { attempt: 2 });
    expect(bench.complete("job-1", 1)).toEqual([]);
    expect(bench.apply({ type: "failed", jobId: "job-1", attempt: 1, error: "e", message: "m", retryable: true })).toEqual([]);
    expect(bench.state.job).toMatchObject({ attempt: 2 });
  });

  it("[WS11] a cancel of an older attempt or of another job does not stop the run", () => {
    const bench = online();
    bench.assign("job-1", { attempt: 2 });
    bench.receive({ type: "job_cancel", job_id: "job-1", attempt: 1, reason: "r" });
    bench.receive({ type: "job_cancel", job_id: "job-9", attempt: 9, reason: "r" });
    expect(bench.state.job).toMatchObject({ jobId: "job-1", attempt: 2 });
  });

  it("[WS10] a cancel deletes a kept result, in memory and on disk", () => {
    const bench = online();
    bench.assign();
    bench.complete();
    expect(bench.receive({ type: "job_cancel", job_id: "job-1", attempt: 1, reason: "completed" })).toContainEqual({ type: "keep", results: [] });
    expect(sent(bench.pass(20_000))).not.toContainEqual(expect.objectContaining({ type: "job_complete" }));
  });

  it("[WS11] [WS12] not_assigned stops the run, but a result that is finished counts without a lease: it is sent until it is acknowledged", () => {
    const bench = online();
    finish(bench, 2);
    bench.assign("job-3");
    bench.close(1006);
    bench.pass(2_500);
    const resent = results(bench.goOnline());
    for (const job of ["job-3", "job-2", "job-1"]) bench.receive({ type: "job_cancel", job_id: job, attempt: 1, reason: "not_assigned" });
    expect(bench.state.job).toBeNull();
    expect([...resent, ...results(acknowledge(bench, "job-2"))]).toEqual(["job-2", "job-1"]);
    acknowledge(bench, "job-1");
    expect(bench.state.unacknowledged).toEqual([]);
  });
});

describe("times", () => {
  it.each([
    ["TASK", 30_000],
    ["LLM_INFER", 60_000],
  ])("[JB4] a %s without progress is given up after %i ms", (type, limit) => {
    const bench = online();
    if (type === "TASK") bench.assign();
    else bench.assignLlm();
    expect(sent(bench.pass(limit - 1))).not.toContainEqual(expect.objectContaining({ type: "job_failed" }));
    const effects = bench.pass(1);
    expect(deeds(effects)).toContain("abort");
    expect(sent(effects)).toContainEqual(
      expect.objectContaining({ type: "job_failed", job_id: "job-1", attempt: 1, error: "execution_timeout", retryable: true }),
    );
  });

  it("[JB4] a run that is aborted knows whether its time was over, by this clock or by the coordinator's", () => {
    const bench = online();
    bench.assignLlm("job-1");
    expect(bench.pass(60_000)).toContainEqual({ type: "abort", jobId: "job-1", attempt: 1, timedOut: true });
    bench.assignLlm("job-2");
    const late = bench.receive({ type: "job_cancel", job_id: "job-2", attempt: 1, reason: "execution_timeout" });
    expect(late).toContainEqual({ type: "abort", jobId: "job-2", attempt: 1, timedOut: true });
    bench.assignLlm("job-3");
    const cancelled = bench.receive({ type: "job_cancel", job_id: "job-3", attempt: 1, reason: "cancelled" });
    expect(cancelled).toContainEqual({ type: "abort", jobId: "job-3", attempt: 1, timedOut: false });
    // The deadline of a job may be a moment after its start. It says nothing about the run.
    bench.assignLlm("job-4", { deadline: bench.deadline(1_000) });
    expect(bench.pass(1_000)).toContainEqual({ type: "abort", jobId: "job-4", attempt: 1, timedOut: false });
  });

  it("[JB4] progress renews the limit, up to the deadline of the job", () => {
    const bench = online();
    bench.assignLlm("job-1", { deadline: bench.deadline(100_000) });
    bench.pass(50_000);
    progress(bench, "a");
    bench.pass(49_999);
    expect(bench.state.job).not.toBeNull();
    expect(sent(bench.pass(1))).toContainEqual(expect.objectContaining({ type: "job_failed", error: "deadline_exceeded", retryable: false }));
  });

  it.each([
    ["past", -60_000],
    ["hours away", 7_200_000],
  ])("[JB4] a deadline that is %s means a wrong clock, so the total time counts from now", (_, ms) => {
    const bench = online();
    bench.assign("job-1", { deadline: bench.deadline(ms) });
    expect(bench.state.job?.totalDue).toBe(180_000);
  });
});

describe("progress", () => {
  it("[WS9] joins deltas, so that it sends at most 20 frames a second, with seq from 0", () => {
    const bench = online();
    bench.assignLlm();
    bench.pass(50);
    for (let i = 0; i < 1_000; i++) {
      progress(bench, String(i % 10));
      bench.pass(1);
    }
    bench.pass(50);
    const frames = sent(bench.effects).filter((frame) => frame["type"] === "job_progress");
    expect(frames.length).toBeLessThanOrEqual(22);
    expect(frames.map((frame) => frame["seq"])).toEqual(frames.map((_, i) => i));
    expect(frames.map((frame) => frame["delta"]).join("")).toBe("0123456789".repeat(100));
  });

  it("[WS9] a new attempt counts from 0 again", () => {
    const bench = online();
    bench.assignLlm();
    bench.pass(50);
    progress(bench, "a");
    bench.assignLlm("job-1", { attempt: 2 });
    bench.pass(50);
    expect(sent(progress(bench, "b", 2))).toEqual([{ type: "job_progress", job_id: "job-1", attempt: 2, seq: 0, delta: "b" }]);
  });

  it("[WS9] a run whose text is still hidden renews its lease with an empty delta every 10 s", () => {
    const bench = online();
    bench.assignLlm();
    for (let i = 0; i < 30; i++) {
      bench.pass(1_000);
      progress(bench, "");
    }
    expect(sent(bench.effects).filter((frame) => frame["type"] === "job_progress")).toEqual(
      [0, 1, 2].map((seq) => ({ type: "job_progress", job_id: "job-1", attempt: 1, seq, delta: "" })),
    );
  });

  it("[WS9] text that was not sent yet is sent before the result", () => {
    const bench = online();
    bench.assignLlm();
    progress(bench, "late");
    expect(sent(bench.complete()).map((frame) => frame["type"])).toEqual(["job_progress", "job_complete"]);
  });

  it("[WS9] never cuts a surrogate pair, and never makes a frame too long", () => {
    const bench = online();
    bench.assignLlm();
    bench.pass(50);
    progress(bench, `x${"😀".repeat(40_000)}`);
    bench.pass(1_000);
    const deltas = sent(bench.effects).flatMap((frame) => (frame["type"] === "job_progress" ? [String(frame["delta"])] : []));
    expect(deltas.every((delta) => delta.isWellFormed() && delta.length <= 32_768)).toBe(true);
    expect(deltas.join("")).toBe(`x${"😀".repeat(40_000)}`);
  });

  it("[WS9] text produced without a socket is sent after the reconnect, and what may have been lost is repeated", () => {
    const bench = online();
    bench.assignLlm();
    bench.pass(50);
    for (const text of ["a", "b"]) {
      progress(bench, text);
      bench.pass(50);
    }
    bench.close(1006);
    progress(bench, "c");
    bench.pass(2_500);
    const frames = [...sent(bench.goOnline()), ...sent(bench.pass(50))].filter((frame) => frame["type"] === "job_progress");
    expect(frames.map(({ seq, delta }) => [seq, delta])).toEqual([
      [0, "a"],
      [1, "b"],
      [2, "c"],
    ]);
  });
});

describe("delivering", () => {
  it("[WS10] a result is stored before it is sent", () => {
    const bench = online();
    bench.assign();
    const effects = bench.complete();
    const kinds = effects.map((effect) => effect.type);
    expect(kinds.indexOf("keep")).toBeLessThan(kinds.indexOf("send"));
  });

  it("[WS10] is sent every 10 s until it is acknowledged", () => {
    const bench = online();
    bench.assign();
    bench.complete();
    const count = () => sent(bench.effects).filter((frame) => frame["type"] === "job_complete").length;
    bench.pass(30_000);
    expect(count()).toBe(4);
    bench.receive({ type: "job_complete_ack", job_id: "job-1", status: "accepted" });
    bench.pass(30_000);
    expect(count()).toBe(4);
  });

  it.each([["accepted"], ["duplicate"], ["rejected"], ["a status of the future"]])("[WS10] any acknowledgement ends the resending: %s", (status) => {
    const bench = online();
    bench.assign();
    bench.complete();
    expect(bench.receive({ type: "job_complete_ack", job_id: "job-1", status })).toContainEqual({ type: "keep", results: [] });
    expect(bench.state.unacknowledged).toEqual([]);
  });

  it("[WS10] resume lists what runs and what is not acknowledged, and the result is sent again after the reconnect", () => {
    const bench = online();
    bench.assign("job-1");
    bench.complete("job-1");
    bench.assign("job-2", { attempt: 2 });
    bench.close(1006);
    bench.pass(2_500);
    const effects = bench.goOnline();
    expect(sent(bench.effects).findLast((frame) => frame["type"] === "register")).toMatchObject({
      resume: [
        { job_id: "job-2", attempt: 2 },
        { job_id: "job-1", attempt: 1 },
      ],
    });
    expect(sent(effects)).toContainEqual({ type: "job_complete", job_id: "job-1", attempt: 1 });
  });

  it("[WS10] resume lists an attempt that runs and an earlier one of the same job whose result is not acknowledged", () => {
    const bench = online();
    bench.assign();
    bench.complete();
    bench.assign("job-1", { attempt: 2 });
    bench.close(1006);
    bench.pass(2_500);
    bench.goOnline();
    expect(sent(bench.effects).findLast((frame) => frame["type"] === "register")?.["resume"]).toEqual([2, 1].map((attempt) => ({ job_id: "job-1", attempt })));
  });

  it("[LM2] after a reconnect one result is sent at a time, the newest first: the next one follows the acknowledgement", () => {
    const bench = online();
    finish(bench, 3);
    bench.close(1006);
    bench.pass(2_500);
    expect(results(bench.goOnline())).toEqual(["job-3"]);
    expect(results(acknowledge(bench, "job-3"))).toEqual(["job-2"]);
    expect(results(acknowledge(bench, "job-2"))).toEqual(["job-1"]);
    expect(results(acknowledge(bench, "job-1"))).toEqual([]);
  });

  it("[LM2] results without an acknowledgement are sent again in turn, one every 10 s", () => {
    const bench = online();
    finish(bench, 3);
    bench.close(1006);
    bench.pass(2_500);
    const first = results(bench.goOnline());
    expect([...first, ...results(bench.pass(40_000))]).toEqual(["job-3", "job-2", "job-1", "job-3", "job-2"]);
    expect(results(bench.pass(9_999))).toEqual([]);
  });

  it("[LM2] [WS11] a result that is cancelled while it waits for its acknowledgement makes way for the next one", () => {
    const bench = online();
    finish(bench, 2);
    bench.close(1006);
    bench.pass(2_500);
    bench.goOnline();
    bench.receive({ type: "job_cancel", job_id: "job-2", attempt: 1, reason: "cancelled" });
    expect(results(bench.pass(0))).toEqual(["job-1"]);
  });

  it("[LM2] [WS10] a new result does not wait for the older ones, and the next of them waits for its acknowledgement", () => {
    const bench = online();
    finish(bench, 2);
    bench.close(1006);
    bench.pass(2_500);
    bench.goOnline();
    bench.assign("job-3");
    expect(results(bench.complete("job-3"))).toEqual(["job-3"]);
    expect(results(acknowledge(bench, "job-2"))).toEqual([]);
    expect(results(acknowledge(bench, "job-3"))).toEqual(["job-1"]);
  });

  it("[WS10] a result that was finished without a socket is delivered after the reconnect", () => {
    const bench = online();
    bench.assign();
    bench.close(1006);
    expect(sent(bench.complete())).toEqual([]);
    bench.pass(2_500);
    expect(sent(bench.goOnline())).toEqual([{ type: "job_complete", job_id: "job-1", attempt: 1 }]);
  });

  it("[WS10] a failure without a socket is sent once after the reconnect, and the resume list has its job", () => {
    const bench = online();
    bench.assign();
    bench.close(1006);
    bench.apply({ type: "failed", jobId: "job-1", attempt: 1, error: "runtime_error", message: "m", retryable: true });
    bench.pass(2_500);
    const effects = bench.goOnline();
    expect(sent(bench.effects).findLast((frame) => frame["type"] === "register")).toMatchObject({ resume: [{ job_id: "job-1", attempt: 1 }] });
    expect(sent(effects)).toEqual([{ type: "job_failed", job_id: "job-1", attempt: 1, error: "runtime_error", message: "m", retryable: true }]);
    bench.close(1006);
    bench.pass(10_000);
    expect(sent(bench.goOnline())).toEqual([]);
  });

  it.each([
    ["no answer from the runtime at http://192.168.1.7:11434/v1", "no answer from the runtime at its address"],
    ['unable to load "/home/anna/.ollama/models/blobs/sha256-12ab": no memory', 'unable to load "sha256-12ab": no memory'],
    ["cannot open C:\\Users\\Anna\\models\\phi-4.gguf", "cannot open phi-4.gguf"],
    ["cannot open C:\\Users\\Anna Meier\\my models\\phi-4.gguf: no memory", "cannot open phi-4.gguf: no memory"],
    ['unable to load "C:\\\\Users\\\\Anna Meier\\\\models\\\\phi-4.gguf"', 'unable to load "phi-4.gguf"'],
    ["cannot open \\\\anna-nas\\Anna Meier\\phi-4.gguf and/or C:/Users/Anna/phi-3.gguf", "cannot open phi-4.gguf and/or phi-3.gguf"],
    ["there is no chat completion at /v1/chat/completions (HTTP 404)", "there is no chat completion at completions (HTTP 404)"],
    ["3 of 4 and/or 12 tokens/s fit", "3 of 4 and/or 12 tokens/s fit"],
    ["dial tcp 192.168.1.20:38763: connect: connection refused", "dial tcp its address: connect: connection refused"],
    ["dial tcp [fd00::12]:80: no route to host 10.1.2.3.", "dial tcp its address: no route to host its address."],
    ["cannot open C:/Users/Anna Meier/models/x.gguf: no memory", "cannot open x.gguf: no memory"],
    ["open '/home/anna müller/x/y.gguf'", "open 'y.gguf'"],
    ["open /Users/anna meier/my models/y.gguf", "open y.gguf"],
    ["at file:///C:/Users/Anna Meier/AppData/x.mjs:3", "at x.mjs:3"],
    ["at file:///home/anna/x.mjs:3", "at x.mjs:3"],
    ["connect ETIMEDOUT 2001:db8:1:2::5:443", "connect ETIMEDOUT its address"],
    ["connect to fe80::1%eth0: refused", "connect to its address: refused"],
    ["getaddrinfo ENOTFOUND gpu-box.anna-home.lan", "getaddrinfo ENOTFOUND its address"],
    ["dial tcp: lookup gpu-box.lan: no such host", "dial tcp: lookup its address: no such host"],
    ["gpu-box:11434 refused", "its address refused"],
    ["std::bad_alloc in ggml::init, error: 11434 of 4096:8192", "std::bad_alloc in ggml::init, error: 11434 of 4096:8192"],
    ["llama.cpp 1.2.3 took 10.5 s at 12:30:15", "llama.cpp 1.2.3 took 10.5 s at 12:30:15"],
  ])("[JB5] a message for the seeker contains no address and no path: %s", (message, said) => {
    const bench = online();
    bench.assign();
    const effects = bench.apply({ type: "failed", jobId: "job-1", attempt: 1, error: "runtime_error", message, retryable: true });
    expect(sent(effects)).toEqual([expect.objectContaining({ type: "job_failed", message: said })]);
    expect(notes(effects)).toContainEqual(expect.objectContaining({ type: "job_failed", message }));
  });

  it("[RC3] a result is dropped when its receipt is too old to be valid", () => {
    const bench = online();
    bench.assign();
    bench.complete();
    const effects = bench.pass(300_000);
    expect(notes(effects)).toContainEqual({ type: "result_dropped", job_id: "job-1", attempt: 1, reason: "expired" });
    expect(effects).toContainEqual({ type: "keep", results: [] });
  });

  it("[WS10] results of an earlier process are resumed and sent; those too old are not", () => {
    const fresh = new SessionBench().result("fresh");
    const old = { ...new SessionBench().result("old"), completedAt: fresh.completedAt - 300_000 };
    const bench = new SessionBench({ kept: [old, fresh] });
    const effects = bench.goOnline();
    expect(notes(bench.effects)).toContainEqual({ type: "result_dropped", job_id: "old", attempt: 1, reason: "expired" });
    expect(bench.effects).toContainEqual({ type: "keep", results: [fresh] });
    expect(sent(bench.effects).find((frame) => frame["type"] === "register")).toMatchObject({ resume: [{ job_id: "fresh", attempt: 1 }] });
    expect(sent(effects)).toEqual([{ type: "job_complete", job_id: "fresh", attempt: 1 }]);
  });

  it("[WS10] keeps at most 16 results, the newest", () => {
    const bench = online();
    for (let i = 0; i < 20; i++) {
      bench.assign(`job-${i}`);
      bench.complete(`job-${i}`);
    }
    expect(bench.state.unacknowledged.map((one) => one.jobId)).toEqual(Array.from({ length: 16 }, (_, i) => `job-${i + 4}`));
    expect(notes(bench.effects).filter((note) => note.type === "result_dropped")).toHaveLength(4);
  });

  it("[WS10] keeps the newest results that have 16 MiB together, and says which one had no room", () => {
    const bench = online();
    const frame = "x".repeat(6 * 1024 * 1024);
    for (const jobId of ["job-1", "job-2", "job-3"]) {
      bench.assign(jobId);
      bench.apply({ type: "completed", result: { ...bench.result(jobId), frame }, tokens: null });
    }
    expect(bench.state.unacknowledged.map((one) => one.jobId)).toEqual(["job-2", "job-3"]);
    expect(notes(bench.effects)).toContainEqual({ type: "result_dropped", job_id: "job-1", attempt: 1, reason: "no_room" });
  });
});

describe("draining", () => {
  it("[WS11] an idle worker sends drain, waits for drained, and closes with 1000", () => {
    const bench = online();
    expect(sent(bench.apply({ type: "drain" }))).toEqual([{ type: "drain" }]);
    expect(bench.receive({ type: "drained" })).toContainEqual({ type: "close", conn: 1, code: 1000, reason: "drained" });
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop: { reason: "drained", message: "this worker has ended" } });
  });

  it("[WS11] a busy worker finishes its job, delivers the result, waits for the acknowledgement, and then leaves", () => {
    const bench = online();
    bench.assign();
    bench.apply({ type: "drain" });
    bench.pass(5_000);
    bench.complete();
    bench.receive({ type: "drained" });
    expect(bench.state.link.kind).toBe("online");
    bench.receive({ type: "job_complete_ack", job_id: "job-1", status: "accepted" });
    const stop = { reason: "drained", message: "every job is finished, and the coordinator has every result" };
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop });
    expect(sent(bench.effects).filter(({ type }) => type === "drain")).toHaveLength(1);
  });

  it("[WS11] if the coordinator does not answer, the worker leaves 10 s after its last job and keeps the results that are not acknowledged", () => {
    const bench = online();
    bench.assign();
    bench.apply({ type: "drain" });
    bench.pass(20_000);
    bench.complete();
    bench.pass(10_000);
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop: { message: expect.stringContaining("kept") } });
    expect(bench.effects.findLast((effect) => effect.type === "keep")).toMatchObject({ results: [{ jobId: "job-1" }] });
  });

  it("[WS11] a worker that leaves with a failure that it could not report says that, and not that results are kept", () => {
    const bench = online();
    bench.assign();
    bench.apply({ type: "drain" });
    bench.close(1006);
    bench.apply({ type: "failed", jobId: "job-1", attempt: 1, error: "e", message: "m", retryable: true });
    bench.pass(10_000);
    expect(bench.state.link).toMatchObject({
      kind: "stopped",
      stop: { reason: "drained", message: "left before the coordinator was told that a job has failed" },
    });
  });

  it("[WS11] without a socket and without a result it leaves at once", () => {
    const bench = online();
    bench.close(1006);
    bench.apply({ type: "drain" });
    expect(bench.state.link.kind).toBe("stopped");
  });

  it("[WS11] without a socket but with a result it reconnects, delivers the result, and sends drain again", () => {
    const bench = online();
    bench.assign();
    bench.apply({ type: "drain" });
    bench.close(1006);
    bench.complete();
    bench.pass(2_500);
    expect(sent(bench.goOnline()).map((frame) => frame["type"])).toEqual(["job_complete", "drain"]);
    bench.receive({ type: "drained" });
    bench.receive({ type: "job_complete_ack", job_id: "job-1", status: "accepted" });
    expect(bench.state.link.kind).toBe("stopped");
  });

  it("[WS11] a second drain changes nothing", () => {
    const bench = online();
    bench.apply({ type: "drain" });
    expect(bench.apply({ type: "drain" })).toEqual([]);
  });
});
