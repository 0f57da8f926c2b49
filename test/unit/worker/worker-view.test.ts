import { describe, expect, it } from "vitest";
import { FIRST_STATUS, nextStatus, statusLine } from "../../../src/worker/node/worker-status.ts";
import { jsonView, lineView } from "../../../src/worker/node/worker-view.ts";
import type { WorkerNote } from "../../../src/worker/node/desktop-worker.ts";

const KEY = `8551${"0".repeat(56)}b537`;
const FRAME = { host: "127.0.0.1:4010", publicKey: KEY, color: false, columns: 200 };
const ONLINE: WorkerNote = { type: "online", worker_id: "w", authenticated: true, proof: "signed", tier: "Verified", network: "eip155:10143" };

function after(...notes: WorkerNote[]) {
  return notes.reduce(nextStatus, FIRST_STATUS);
}

const ran = (tokens: number | null, ms: number): WorkerNote[] => [
  { type: "job_started", job_id: "j", attempt: 1, job_type: "LLM_INFER" },
  { type: "job_finished", job_id: "j", attempt: 1, ms, tokens },
];

describe("the status line", () => {
  it("says link, instance, key, tier, model, jobs, success and speed", () => {
    const jobs = Array.from({ length: 12 }, () => ran(41, 1_000)).flat();
    expect(statusLine(after(ONLINE, { type: "runtime_ready", runtime: "ollama", model: "tiny-chat" }, ...jobs), FRAME)).toBe(
      "● online  evm 127.0.0.1:4010  key 8551…b537  Verified  tiny-chat  jobs 12  ok 100%  41 tok/s",
    );
  });

  it("[ST2] follows the tier", () => {
    expect(statusLine(after(ONLINE, { type: "tier", tier: "Sentinel" }), FRAME)).toContain("  Sentinel  tasks only");
    expect(statusLine(after(ONLINE, { type: "tier", tier: "Open" }), FRAME)).toContain("  Open  tasks only");
  });

  it("counts failures, and never rounds up to 100%", () => {
    const jobs = Array.from({ length: 999 }, () => ran(null, 5)).flat();
    const failure: WorkerNote = { type: "job_failed", job_id: "j", attempt: 1, error: "e", message: "m", retryable: true };
    expect(statusLine(after(ONLINE, ...jobs, failure), FRAME)).toContain("jobs 1000  ok 99%");
  });

  it("shows that it is not signed in, offline, working, finishing", () => {
    expect(statusLine(after({ ...ONLINE, authenticated: false, network: "solana:x" }), FRAME)).toContain(
      "online  svm 127.0.0.1:4010  key 8551…b537  not signed",
    );
    expect(statusLine(after(ONLINE, { type: "offline", code: 1006, cause: "c", retry_in_ms: 1 }), FRAME)).toMatch(/^○ offline/);
    expect(statusLine(after(ONLINE, ...ran(null, 1).slice(0, 1), { type: "draining" }), FRAME)).toMatch(/^● finishing.*working$/);
  });

  it("fits the width of the terminal", () => {
    for (const columns of [10, 40, 80]) expect([...statusLine(after(ONLINE), { ...FRAME, columns })].length).toBeLessThanOrEqual(columns);
  });

  it("has color only where it is wanted", () => {
    expect(statusLine(after(ONLINE), FRAME)).not.toContain("\u001B");
    expect(statusLine(after(ONLINE), { ...FRAME, color: true })).toContain("\u001B[32m●");
  });
});

describe("views", () => {
  it("without a terminal: one JSON object a line", () => {
    let out = "";
    const view = jsonView({ write: (text) => (out += text) }, () => "2026-11-21T00:00:00.000Z");
    view.note(ONLINE);
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

  it("on a terminal: draws one line again in place, with sentences above it", () => {
    let out = "";
    const view = lineView({ write: (text) => (out += text) }, () => FRAME);
    view.note(ONLINE);
    view.note({ type: "runtime_missing", hint: "run: ollama pull llama3.2", tried: [] });
    expect(out.split("\n")).toHaveLength(2);
    expect(out).toContain("no LLM: working on tasks only; to get one, run: ollama pull llama3.2\n\r\u001B[2K● online");
    view.note({ type: "tier", tier: "Open" });
    view.note({ type: "tier", tier: "Verified" });
    expect(out).toContain("tier: Open; FAST jobs go to others\n");
    expect(out).toContain("tier: Verified\n");
  });
});
