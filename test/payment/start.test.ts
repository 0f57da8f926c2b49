import { join } from "node:path";
import { expect, it } from "vitest";
import { startChild } from "../../scripts/child.ts";
import { freePort, ROOT } from "../../scripts/coordinator-process.ts";

import { descendants, stillRunning } from "../support/process-tree.ts";
import { until } from "../support/until.ts";

async function startPaid() {
  const ports = ["--evm-port", String(await freePort()), "--svm-port", String(await freePort())];
  // A machine without an LLM, whatever the present one has.
  const child = startChild([join(ROOT, "scripts", "start-paid.ts"), ...ports], { cwd: ROOT, env: { LLM_BASE_URL: "http://127.0.0.1:9" } });
  return { child, text: () => child.lines.join("\n") };
}

/** What a job prints, from its label on, in order. */
const PAID = (price: string, payer: string, payee: string) => [
  expect.stringMatching(new RegExp(`^402 .* costs \\${price}: \\d+ of `)),
  expect.stringMatching(/^pay .* signs it/),
  expect.stringMatching(/^201 .* its payment settled$/),
  expect.stringMatching(/^result +\S/),
  expect.stringMatching(/^receipt +verified, signed by [0-9a-f]{8}…$/),
  expect.stringMatching(/^settled +by transaction \w{64,}$/),
  expect.stringMatching(new RegExp(`^payer .* \\$100\\.000000 → \\${payer}$`)),
  expect.stringMatching(new RegExp(`^payee .* \\$0\\.000000 → \\${payee}$`)),
];

// What --once changes is the same code as in `npm start -- --once`: e2e/start.test.ts has it.
it(
  "[PY1] [PY7] [PY10] start:paid shows a settled job on each instance, stays up until Ctrl-C, and then leaves no child behind",
  { timeout: 120_000 },
  async () => {
    const { child, text } = await startPaid();
    await until("banner", () => (text().includes("Pay for a job of your own") ? true : undefined), text, 100_000);
    const shown = (instance: string) => {
      const start = child.lines.indexOf(instance) + 1;
      return child.lines.slice(start, start + 8).map((line) => line.trim());
    };
    expect(shown("evm"), text()).toEqual(PAID("$0.010", "$99.990000", "$0.010000"));
    expect(shown("svm"), text()).toEqual(PAID("$0.001", "$99.999000", "$0.001000"));
    // Whoever reads a toy's answer is told that it is one.
    expect(shown("evm")[3]).toMatch(/ \(by tiny-chat-q8_0, a toy\)$/);
    expect(text()).toContain("2 of 2 jobs paid, done and verified");
    const children = descendants(child.pid).map(({ pid }) => pid);
    expect(children.length).toBeGreaterThan(4);
    process.kill(child.pid, "SIGINT");
    expect(await child.exited, text()).toBe(0);
    expect(stillRunning(children)).toEqual([]);
  },
);
