import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { coordinatorMetrics } from "../../../scripts/coordinator-metrics.ts";
import { ROOT } from "../../../scripts/coordinator-process.ts";
import type { HubFigures } from "../../../src/coordinator/hub/figures.ts";

const FIGURES: HubFigures = {
  since: 1_500,
  workers: { idle: 3, busy: 1 },
  jobs: { waiting: 5, settling: 0, leased: 1, orphaned: 0 },
  ended: [
    { type: "TASK", outcome: "completed", jobs: 7, ms: 1_500 },
    { type: "LLM_INFER", outcome: "timeout", jobs: 1, ms: 30_000 },
  ],
  payments: { held: 2, settling: 0, unknown: 0, settled: 0, credit: 0, covered: 0, unresolved: 1 },
  behind: 4,
  stored: { hub: 8_192, d1: 4_096, most: 5_000_000_000 },
};
const text = coordinatorMetrics(FIGURES, { instance: "evm", version: "2.0.0" });

describe("the metrics of a coordinator", () => {
  it("have every figure of the hub, in the units of Prometheus", () => {
    const samples = text.split("\n").flatMap((line) => (line === "" || line.startsWith("#") ? [] : [line.replace("compute_router_coordinator_", "")]));
    expect(samples).toEqual([
      'info{instance="evm",version="2.0.0"} 1',
      "start_time_seconds 1.5",
      'workers_online{state="idle"} 3',
      'workers_online{state="busy"} 1',
      'jobs{phase="waiting"} 5',
      'jobs{phase="settling"} 0',
      'jobs{phase="leased"} 1',
      'jobs{phase="orphaned"} 0',
      'jobs_ended_total{type="TASK",outcome="completed"} 7',
      'jobs_ended_total{type="LLM_INFER",outcome="timeout"} 1',
      'jobs_ended_seconds_total{type="TASK",outcome="completed"} 1.5',
      'jobs_ended_seconds_total{type="LLM_INFER",outcome="timeout"} 30',
      'payments{phase="held"} 2',
      'payments{phase="settling"} 0',
      'payments{phase="unknown"} 0',
      'payments{phase="settled"} 0',
      'payments{phase="credit"} 0',
      'payments{phase="covered"} 0',
      'payments{phase="unresolved"} 1',
      "jobs_behind 4",
      'stored_bytes{store="hub"} 8192',
      'stored_bytes{store="d1"} 4096',
      "stored_bytes_limit 5000000000",
    ]);
  });

  it("are all in docs/self-hosting.md", () => {
    const doc = readFileSync(join(ROOT, "docs", "self-hosting.md"), "utf8");
    const names = [...text.matchAll(/^# TYPE compute_router_coordinator_(\w+) /gm)].map(([, name]) => name);
    expect(names).toHaveLength(10);
    for (const name of names) expect(doc).toContain(`\`${name}`);
  });
});
