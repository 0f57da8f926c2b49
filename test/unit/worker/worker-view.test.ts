import { describe, expect, it } from "vitest";
import { firstStatus, nextStatus } from "../../../src/worker/node/worker-status.ts";
import { jsonView, lineView, statusLines } from "../../../src/worker/node/worker-view.ts";
import type { WorkerNote } from "../../../src/worker/node/desktop-worker.ts";

const KEY = `8551${"0".repeat(56)}b537`;
const FRAME = { publicKey: KEY, color: false, columns: 200, now: 0 };
const EVM = "127.0.0.1:4010";
const SVM = "127.0.0.1:4020";
const ONLINE: WorkerNote = {
  type: "online",
  coordinator: EVM,
  worker_id: "w",
  authenticated: true,
  proof: "signed",
  tier: "Verified",
  network: "eip155:10143",
};
const ONLINE_SVM: WorkerNote = { ...ONLINE, coordinator: SVM, tier: "Open", network: "solana:x" };
const READY: WorkerNote = { type: "runtime_ready", runtime: "ollama", model: "tiny-chat" };

function after(...notes: WorkerNote[]) {
  return notes.reduce((status, note) => nextStatus(status, note, 0), firstStatus([EVM]));
}

function afterBoth(...notes: WorkerNote[]) {
  return notes.reduce((status, note) => nextStatus(status, note, 0), firstStatus([EVM, SVM]));
}

function statusLine(...[status, frame]: Parameters<typeof statusLines>): string {
  const lines = statusLines(status, frame);
  expect(lines).toHaveLength(1);
  return lines[0] ?? "";
}

function ran(tokens: number | null, ms: number, coordinator = EVM): [WorkerNote, WorkerNote, WorkerNote] {
  return [
    { type: "job_started", coordinator, job_id: "j", attempt: 1, job_type: "LLM_INFER" },
    { type: "job_finished", coordinator, job_id: "j", attempt: 1, ms, tokens },
    { type: "job_acknowledged", coordinator, job_id: "j", status: "accepted", error: null, message: null },
  ];
}

describe("the status line", () => {
  it("shows connection, instance, jobs, success, key, tier, model and speed", () => {
    const jobs = Array.from({ length: 12 }, () => ran(41, 1_000)).flat();
    expect(statusLine(after(ONLINE, READY, ...jobs), FRAME)).toBe(
      "● online  evm 127.0.0.1:4010  jobs 12  ok 100%  key 8551…b537  Verified  tiny-chat  41 tok/s",
    );
  });

  it("[ST2] follows the tier", () => {
    expect(statusLine(after(ONLINE, { type: "tier", coordinator: EVM, tier: "Sentinel" }), FRAME)).toContain("  Sentinel  tasks only");
    expect(statusLine(after(ONLINE, { type: "tier", coordinator: EVM, tier: "Open" }), FRAME)).toContain("  Open  tasks only");
  });

  it("counts failures, and never rounds up to 100%", () => {
    const jobs = Array.from({ length: 999 }, () => ran(null, 5)).flat();
    const [started] = ran(null, 5);
    const failure: WorkerNote = { type: "job_failed", coordinator: EVM, job_id: "j", attempt: 1, error: "e", message: "m", retryable: true };
    expect(statusLine(after(ONLINE, ...jobs, started, failure), FRAME)).toContain("jobs 1000  ok 99%");
  });

  it("[WS10] shows a job as ok when its result is accepted, and says why one was rejected", () => {
    const [started, finished, accepted] = ran(null, 5);
    expect(statusLine(after(ONLINE, started, finished), FRAME)).toMatch(/jobs 1 {2}key/);
    const rejected: WorkerNote = {
      ...{ type: "job_acknowledged", coordinator: EVM, job_id: "j", status: "rejected", error: "invalid_receipt" },
      message: "hash: expected sha256:00 of the output as JSON.stringify writes it",
    };
    const twice = after(ONLINE, started, finished, accepted, started, finished, rejected);
    expect(statusLine(twice, FRAME)).toContain("jobs 2  ok 50%  rejected 1 (hash)");
    expect(statusLine(after(ONLINE, started, finished, { ...rejected, error: "already_terminal", message: "the job has ended" }), FRAME)).toContain(
      "jobs 1  ok 0%  rejected 1 (already_terminal)",
    );
    expect(statusLine(after(ONLINE, started, finished, { ...rejected, status: "duplicate", error: null, message: null }), FRAME)).toContain("jobs 1  ok 100%");
    expect(
      statusLine(after(ONLINE, started, finished, { type: "result_dropped", coordinator: EVM, job_id: "j", attempt: 1, reason: "expired" }), FRAME),
    ).toContain("jobs 1  ok 0%  rejected 1 (expired)");
  });

  it("[WS4] says how far the clock is off for as long as it is", () => {
    const off: WorkerNote = { type: "clock", coordinator: EVM, verdict: "refused", off_ms: -423_400 };
    expect(statusLine(after(ONLINE, off), FRAME)).toContain("evm 127.0.0.1:4010  clock 7 min 3 s behind the coordinator's  jobs 0  key");
    expect(statusLine(after(ONLINE, off, { ...off, verdict: "right", off_ms: 12 }), FRAME)).not.toContain("clock");
  });

  it("shows unsigned, offline, working and finishing", () => {
    expect(statusLine(after({ ...ONLINE, authenticated: false, network: "solana:x" }), FRAME)).toContain(
      "online  svm 127.0.0.1:4010  jobs 0  key 8551…b537  not signed",
    );
    expect(statusLine(after(ONLINE, { type: "offline", coordinator: EVM, code: 1006, cause: "c", retry_in_ms: 1 }), FRAME)).toMatch(/^○ offline/);
    expect(statusLine(after(ONLINE, ...ran(null, 1).slice(0, 1), { type: "draining", coordinator: EVM }), FRAME)).toMatch(
      /^● finishing.*jobs 0 {2}working {2}key/,
    );
  });

  it("shows time and progress of a job that takes long", () => {
    const [started] = ran(null, 1);
    const status = after(ONLINE, started, { type: "job_progress", coordinator: EVM, job_id: "j", attempt: 1, ms: 12_300, chars: 640 });
    expect(statusLine(status, { ...FRAME, now: 12_345 })).toMatch(/jobs 0 {2}working 12 s 640 characters {2}key/);
    expect(statusLine(after(ONLINE, started), { ...FRAME, now: 999 })).toMatch(/working {2}key/);
    expect(statusLine(after(ONLINE, { type: "job_waiting", coordinator: EVM, job_id: "k", attempt: 1 }), FRAME)).toMatch(
      /jobs 0 {2}waiting for the LLM {2}key/,
    );
  });

  it("shows in 80 columns what the running job does, also while it is finishing", () => {
    const jobs = (coordinator: string) => Array.from({ length: 12 }, () => ran(41, 1_000, coordinator)).flat();
    const running: WorkerNote[] = [EVM, SVM].flatMap((coordinator) => [
      ...jobs(coordinator),
      ran(null, 1, coordinator)[0],
      { type: "job_progress", coordinator, job_id: "j", attempt: 1, ms: 12_300, chars: 640 },
      { type: "draining", coordinator },
    ]);
    const frame = { ...FRAME, columns: 80, now: 12_345 };
    const shown = "● finishing  evm 127.0.0.1:4010  jobs 12  ok 100%  working 12 s 640 characters";
    const one = after(ONLINE, READY, ...running.filter((note) => "coordinator" in note && note.coordinator === EVM));
    expect(statusLine(one, frame)).toContain(shown);
    expect(statusLines(afterBoth(ONLINE, ONLINE_SVM, READY, ...running), frame)[0]).toContain(shown);
  });

  it("has a line for each of several coordinators, and one for the common facts", () => {
    const status = afterBoth(ONLINE, ONLINE_SVM, READY, ...ran(41, 1_000), ...ran(39, 1_000, SVM), {
      type: "offline",
      coordinator: SVM,
      code: 1006,
      cause: "c",
      retry_in_ms: 1,
    });
    expect(statusLines(status, FRAME)).toEqual([
      "● online   evm 127.0.0.1:4010  jobs 1  ok 100%  Verified",
      "○ offline  svm 127.0.0.1:4020  jobs 1  ok 100%",
      "  key 8551…b537  tiny-chat  40 tok/s",
    ]);
  });

  it("fits the width of the terminal", () => {
    for (const columns of [10, 40, 80]) expect([...statusLine(after(ONLINE), { ...FRAME, columns })].length).toBeLessThanOrEqual(columns);
    // The key is cut after its own ellipsis.
    expect(statusLine(after(ONLINE), { ...FRAME, columns: 48 })).toBe("● online  evm 127.0.0.1:4010  jobs 0  key 8551…");
    expect(statusLine(after(ONLINE), { ...FRAME, columns: 40 })).toBe("● online  evm 127.0.0.1:4010  jobs 0  k…");
  });

  it("has color only on request", () => {
    expect(statusLine(after(ONLINE), FRAME)).not.toContain("\u001B");
    expect(statusLine(after(ONLINE), { ...FRAME, color: true })).toContain("\u001B[32m●");
  });
});

describe("views", () => {
  it("without a terminal: one JSON object a line", () => {
    let out = "";
    const view = jsonView({ write: (text) => (out += text) }, () => "2026-11-21T00:00:00.000Z");
    view.note(ONLINE, after(ONLINE));
    view.say("hello\nthere");
    expect(
      out
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { time: "2026-11-21T00:00:00.000Z", ...ONLINE },
      { time: "2026-11-21T00:00:00.000Z", type: "info", message: "hello\nthere" },
    ]);
  });

  it("[WS11] says that the worker finishes its job only if it has one", () => {
    const said = (...notes: WorkerNote[]): string => {
      let out = "";
      const draining: WorkerNote = { type: "draining", coordinator: EVM };
      lineView({ write: (text) => (out += text) }, after(...notes), () => FRAME).note(draining, after(...notes, draining));
      return out;
    };
    expect(said(ONLINE)).toContain("no more jobs: leaving\n");
    expect(said(ONLINE, ran(null, 1)[0])).toContain("no more jobs: leaving when the current one is done; press Ctrl-C again to leave at once\n");
  });

  it("on a terminal: breaks a sentence at words, and no command in it", () => {
    let out = "";
    const view = lineView({ write: (text) => (out += text) }, after(), () => ({ ...FRAME, columns: 60 }));
    view.note({ type: "runtime_missing", hint: "install Ollama (https://ollama.com) and run: ollama pull llama3.2", tried: [] }, after(ONLINE));
    expect(out).toContain("no LLM: taking tasks only; to get one, install Ollama\n(https://ollama.com) and run: ollama pull llama3.2\n● online");
  });

  it("on a terminal: updates one line in place, with sentences above it", () => {
    let out = "";
    const view = lineView({ write: (text) => (out += text) }, after(), () => FRAME);
    view.note(ONLINE, after(ONLINE));
    view.note({ type: "runtime_missing", hint: "run: ollama pull llama3.2", tried: [] }, after(ONLINE));
    expect(out.split("\n")).toHaveLength(2);
    expect(out).toContain("no LLM: taking tasks only; to get one, run: ollama pull llama3.2\n● online");
    view.note(READY, after(ONLINE, READY));
    view.note({ ...READY, hint: "rename the model" }, after(ONLINE, READY));
    expect(out).toContain("LLM: tiny-chat by ollama\n");
    expect(out).toContain("LLM: tiny-chat by ollama; rename the model\n");
    view.note({ type: "clock", coordinator: EVM, verdict: "doubtful", off_ms: 65_000 }, after(ONLINE));
    view.note({ type: "clock", coordinator: EVM, verdict: "refused", off_ms: -8_000_000 }, after(ONLINE));
    expect(out).toContain(
      "WARNING: this machine's clock is 65 s ahead of the coordinator's; set it soon: if it is off by more than 5 min, the coordinator refuses the receipts\n",
    );
    expect(out).toContain("WARNING: this machine's clock is 2 h behind the coordinator's: this worker takes no job until the clock is set");
    view.note({ type: "tier", coordinator: EVM, tier: "Open" }, after(ONLINE));
    view.note({ type: "tier", coordinator: EVM, tier: "Verified" }, after(ONLINE));
    expect(out).toContain("tier: Open; FAST jobs go to other workers\n");
    expect(out).toContain("tier: Verified\n");
  });
});
