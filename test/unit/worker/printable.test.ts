import { describe, expect, it } from "vitest";
import { print } from "../../../src/cli/print.ts";
import { printable } from "../../../src/worker/node/printable.ts";
import { FIRST_STATUS, nextStatus, statusLine } from "../../../src/worker/node/worker-status.ts";
import { lineView } from "../../../src/worker/node/worker-view.ts";

/** Clears the screen, sets the title, fills the clipboard; the last one by a C1 control. */
const HOSTILE = "a\u001b[2J\u001b]0;owned\u0007\u001b]52;c;cm0=\u0007\u009b31m\rb\b\u0000\u007f";
const FRAME = { host: "h", publicKey: "0".repeat(64), color: false, columns: 500 };

function out(isTTY: boolean): { isTTY: boolean; text: string; write(text: string): void } {
  return {
    isTTY,
    text: "",
    write(text) {
      this.text += text;
    },
  };
}

describe("text of strangers", () => {
  it("has no control character left but line ends and tabs", () => {
    expect(printable(HOSTILE)).toBe("a\\u001b[2J\\u001b]0;owned\\u0007\\u001b]52;c;cm0=\\u0007\\u009b31m\\u000db\\u0008\\u0000\\u007f");
    const text = "one\ttwo\r\nthree\n\u00e9 \u{1f98a} \\u001b";
    expect(printable(text)).toBe(text);
  });

  it("is printed so on a terminal, and as it is into a pipe", () => {
    const [terminal, pipe] = [out(true), out(false)];
    print(HOSTILE, terminal);
    print(HOSTILE, pipe);
    expect(terminal.text).toBe(`${printable(HOSTILE)}\n`);
    expect(pipe.text).toBe(`${HOSTILE}\n`);
  });

  it("commands no terminal through a worker's own screen: what a coordinator says of a job, and of its network", () => {
    const terminal = out(true);
    const view = lineView(terminal, () => FRAME);
    view.note({ type: "online", worker_id: "w", authenticated: true, proof: "signed", tier: "Open", network: `\u001b[31m:${HOSTILE}` });
    view.note({ type: "job_acknowledged", job_id: "j", status: "rejected", error: HOSTILE });
    expect(terminal.text.replaceAll("\r\u001b[2K", "")).not.toMatch(/(?!\n)\p{Cc}/u);
    const status = nextStatus(FIRST_STATUS, { type: "runtime_ready", runtime: "r", model: HOSTILE });
    expect(statusLine(status, FRAME)).not.toMatch(/\p{Cc}/u);
  });
});
