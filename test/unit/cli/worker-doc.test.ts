import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EXIT } from "../../../src/cli/command.ts";
import { WORKER_START_ARGS } from "../../../src/cli/worker-plan.ts";
import { metricsText } from "../../../src/worker/node/metrics.ts";
import { firstStatus } from "../../../src/worker/node/worker-status.ts";
import { SESSION_TIMING } from "../../../src/worker/session/state.ts";

const DOC = readFileSync(join(import.meta.dirname, "..", "..", "..", "docs", "worker.md"), "utf8");

describe("docs/worker.md", () => {
  it("names every option of a worker", () => {
    for (const option of Object.keys(WORKER_START_ARGS)) expect(DOC).toContain(`--${option}`);
  });

  it("names every exit code that a worker has", () => {
    for (const code of [EXIT.ok, EXIT.usage, EXIT.key, EXIT.replaced, EXIT.refused, EXIT.unreachable, EXIT.notRunning])
      expect(DOC).toMatch(new RegExp(`^\\| ${code} \\|`, "m"));
  });

  it("names every metric", () => {
    const text = metricsText(firstStatus(["a"]), { publicKey: "", version: "", startedAt: 0, now: 0 });
    for (const [, name] of text.matchAll(/^# TYPE compute_router_worker_(\w+) /gm)) expect(DOC).toContain(`\`${name}`);
  });

  it("gives the times that the session has", () => {
    expect(DOC).toContain(`at most ${SESSION_TIMING.runtimeWait / 1000} s`);
    expect(DOC).toContain(`nothing for ${SESSION_TIMING.silent / 1000} s`);
    expect(DOC).toContain(`no life within ${SESSION_TIMING.wake / 1000} s`);
  });
});
