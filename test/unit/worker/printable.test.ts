import { describe, expect, it } from "vitest";
import { print, printJson, printUntrusted } from "../../../src/cli/command.ts";
import { printStream } from "../../../src/cli/waiting.ts";
import type { JobEvent } from "../../../src/sdk/index.ts";
import { printable, untrusted } from "../../../src/protocol/text.ts";

import { firstStatus, nextStatus } from "../../../src/worker/node/worker-status.ts";
import type { WorkerNote } from "../../../src/worker/node/desktop-worker.ts";
import { lineView, statusLines } from "../../../src/worker/node/worker-view.ts";

/** Clears the screen, sets the title, fills the clipboard; the last one by a C1 control. */
const HOSTILE = "a\u001b[2J\u001b]0;owned\u0007\u001b]52;c;cm0=\u0007\u009b31m\rb\b\u0000\u007f";
const FRAME = { publicKey: "0".repeat(64), color: false, columns: 500, now: 0 };

function out(isTTY: boolean): { isTTY: boolean; text: string; write(text: string): void } {
  return {
    isTTY,
    text: "",
    write(text) {
      this.text += text;
    },
  };
}

describe("untrusted text", () => {
  it("is printed without control characters, except line ends and tabs", () => {
    expect(printable(HOSTILE)).toBe("a\\u001b[2J\\u001b]0;owned\\u0007\\u001b]52;c;cm0=\\u0007\\u009b31m\\u000db\\u0008\\u0000\\u007f");
    const text = "one\ttwo\r\nthree\n\u00e9 \u{1f98a} \\u001b";
    expect(printable(text)).toBe(text);
  });

  it("in the middle of a line is also printed without line ends and without bidi marks", () => {
    expect(untrusted("a\r\n✓ all is well\tb")).toBe("a\\u000d\\u000a✓ all is well\\u0009b");
    for (const mark of "\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u0085") {
      const written = `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`;
      expect([untrusted(mark), printable(mark)]).toEqual([written, written]);
    }
  });

  it("is escaped on a terminal and unchanged in a pipe; our own text is never escaped", () => {
    const [terminal, pipe, own] = [out(true), out(false), out(true)];
    printUntrusted(HOSTILE, terminal);
    printUntrusted(HOSTILE, pipe);
    print("\u001b[32m✓\u001b[39m", own);
    expect([terminal.text, pipe.text, own.text]).toEqual([printable(HOSTILE), HOSTILE, "\u001b[32m✓\u001b[39m\n"]);
  });

  it("in JSON on a terminal is escaped to the same JSON", () => {
    const [terminal, pipe] = [out(true), out(false)];
    const value = { text: `${HOSTILE}\u2028\u202e\n"\\u001b`, "\u009b": [null, 1] };
    printJson(value, terminal);
    printJson(value, pipe);
    expect(pipe.text).toBe(`${JSON.stringify(value)}\n`);
    expect(JSON.parse(terminal.text)).toEqual(value);
    expect(terminal.text.trimEnd()).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
  });

  it("is escaped in a stream too", async () => {
    const [stdout, stderr] = [out(true), out(false)];
    async function* stream(): AsyncGenerator<JobEvent> {
      yield { type: "delta", attempt: 1, seq: 0, delta: HOSTILE };
      const result = { output: `${HOSTILE}${HOSTILE}`, source: "router", result: null, receipt: null, verified: false } as const;
      yield {
        type: "done",
        result: { ...result, verification: { ok: false, reason: "no_receipt" }, price: null, credit: null, jobId: "j", status: "completed" },
      };
    }
    await printStream(stream(), { stdout, stderr });
    expect(stdout.text).toBe(`${printable(HOSTILE)}${printable(HOSTILE)}\n`);
  });

  it("cannot control the terminal of a worker: messages of a coordinator about a job and its network are escaped", () => {
    const terminal = out(true);
    const coordinator = "h";
    const view = lineView(terminal, firstStatus([coordinator]), () => FRAME);
    let status = firstStatus([coordinator]);
    const notes: WorkerNote[] = [
      { type: "online", coordinator, worker_id: "w", authenticated: true, proof: "signed", tier: "Open", network: `\u001b[31m:${HOSTILE}` },
      { type: "job_acknowledged", coordinator, job_id: "j", status: "rejected", error: HOSTILE, message: null },
      { type: "runtime_ready", runtime: "r", model: HOSTILE },
    ];
    for (const note of notes) view.note(note, (status = nextStatus(status, note, 0)));
    expect(terminal.text).toContain("owned");
    expect(terminal.text.replaceAll("\r\u001b[J", "")).not.toMatch(/(?!\n)\p{Cc}/u);
    for (const line of statusLines(status, FRAME)) expect(line).not.toMatch(/\p{Cc}/u);
  });
});
