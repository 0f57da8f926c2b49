import { connect } from "node:net";
import { once } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import type { WorkerNote } from "../../../src/worker/node/desktop-worker.ts";
import { metricsText } from "../../../src/worker/node/metrics.ts";
import { readMetricsAddress, serveMetrics } from "../../../src/worker/node/metrics-page.ts";
import { firstStatus, nextStatus } from "../../../src/worker/node/worker-status.ts";
import { connectElsewhere } from "../../support/other-address.ts";

const EVM = "127.0.0.1:4010";
const ABOUT = { publicKey: "ab".repeat(32), version: "2.0.0", startedAt: 1_000, now: 60_000 };

/** The value of each series after these notes, told at their times. */
function series(notes: readonly (readonly [number, WorkerNote])[], about = ABOUT): Map<string, number> {
  const status = notes.reduce((so, [now, note]) => nextStatus(so, note, now), firstStatus([EVM]));
  const lines = metricsText(status, about)
    .trimEnd()
    .split("\n")
    .filter((line) => !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")).replace("compute_router_worker_", ""), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
}

const online: WorkerNote = { type: "online", coordinator: EVM, worker_id: "w", authenticated: true, proof: "signed", tier: "Open", network: "eip155:1" };
const started = (job_id: string, job_type: "LLM_INFER" | "TASK"): WorkerNote => ({ type: "job_started", coordinator: EVM, job_id, attempt: 1, job_type });
const finished = (job_id: string, ms: number, tokens: number | null): WorkerNote => ({
  type: "job_finished",
  coordinator: EVM,
  job_id,
  attempt: 1,
  ms,
  tokens,
});

describe("the metrics of a worker", () => {
  it("count jobs by type and outcome, tokens and busy seconds", () => {
    const found = series([
      [0, online],
      [1_000, started("a", "LLM_INFER")],
      [3_500, finished("a", 2_500, 41)],
      [4_000, started("b", "TASK")],
      [4_200, { type: "job_failed", coordinator: EVM, job_id: "b", attempt: 1, error: "e", message: "m", retryable: true }],
      [5_000, started("c", "TASK")],
      [5_100, { type: "job_cancelled", coordinator: EVM, job_id: "c", attempt: 1, reason: "cancelled" }],
      [6_000, { type: "job_rejected", coordinator: EVM, job_id: "d", reason: "busy" }],
      [6_000, { type: "job_acknowledged", coordinator: EVM, job_id: "a", status: "accepted", error: null, message: null }],
    ]);
    const at = `coordinator="${EVM}"`;
    expect(found.get(`jobs_total{${at},type="LLM_INFER",outcome="completed"}`)).toBe(1);
    expect(found.get(`jobs_total{${at},type="TASK",outcome="failed"}`)).toBe(1);
    expect(found.get(`jobs_total{${at},type="TASK",outcome="cancelled"}`)).toBe(1);
    expect(found.get(`jobs_total{${at},type="TASK",outcome="completed"}`)).toBe(0);
    expect(found.get(`tokens_total{${at}}`)).toBe(41);
    expect(found.get(`busy_seconds_total{${at},type="LLM_INFER"}`)).toBe(2.5);
    expect(found.get(`busy_seconds_total{${at},type="TASK"}`)).toBeCloseTo(0.3);
    expect(found.get(`rejections_total{${at},reason="busy"}`)).toBe(1);
    expect(found.get(`results_total{${at},status="accepted"}`)).toBe(1);
  });

  it("count the running job as busy, and every registration after the first as a reconnect", () => {
    const found = series([
      [0, online],
      [1, { type: "offline", coordinator: EVM, code: 1006, cause: "c", retry_in_ms: 1 }],
      [2, online],
      [50_000, started("a", "TASK")],
    ]);
    expect(found.get(`busy_seconds_total{coordinator="${EVM}",type="TASK"}`)).toBe(10);
    expect(found.get(`job_running{coordinator="${EVM}"}`)).toBe(1);
    expect(found.get(`reconnects_total{coordinator="${EVM}"}`)).toBe(1);
    expect(found.get(`socket_state{coordinator="${EVM}",state="online"}`)).toBe(1);
    expect(found.get(`socket_state{coordinator="${EVM}",state="offline"}`)).toBe(0);
  });

  it("escape characters that a label may not contain, and describe each metric", () => {
    const status = nextStatus(firstStatus([EVM]), { type: "runtime_ready", runtime: "ollama", model: 'a"b\\c\nd' }, 0);
    const text = metricsText(status, ABOUT);
    expect(text).toContain('compute_router_worker_llm_info{runtime="ollama",model="a\\"b\\\\c\\nd"} 1\n');
    const named = [...text.matchAll(/^# TYPE (\S+) (?:counter|gauge)$/gm)].map(([, name]) => name);
    for (const [, name] of text.matchAll(/^(\w+)(?:\{.*\})? [\d.]+$/gm)) expect(named).toContain(name);
    expect(text.match(/^# HELP/gm)).toHaveLength(named.length);
  });
});

describe("the metrics page", () => {
  it.each([
    ["9464", { host: "127.0.0.1", port: 9464 }],
    [":9464", { host: "127.0.0.1", port: 9464 }],
    ["0.0.0.0:9464", { host: "0.0.0.0", port: 9464 }],
    ["[::1]:9464", { host: "::1", port: 9464 }],
    ["localhost:0", { host: "localhost", port: 0 }],
    ["65536", null],
    ["http://127.0.0.1:9464", null],
    ["", null],
  ])("of %j is served at %j: by default only on this machine", (text, address) => {
    expect(readMetricsAddress(text)).toEqual(address);
  });

  it("is only at /metrics, and does not stop the worker from ending", async () => {
    const server = await serveMetrics({ host: "127.0.0.1", port: 0 }, () => "a 1\n");
    onTestFinished(server.close);
    const page = await fetch(server.url);
    expect([page.status, page.headers.get("content-type"), await page.text()]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8", "a 1\n"]);
    expect((await fetch(new URL("/", server.url))).status).toBe(404);
    expect((await fetch(`${server.url}?target=1`)).status).toBe(200);
    const posted = await fetch(server.url, { method: "POST" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const port = Number(new URL(server.url).port);
    expect(await connectElsewhere(port)).toBe("ECONNREFUSED");
    const scraper = connect(port, "127.0.0.1");
    await once(scraper, "connect");
    server.close();
    await once(scraper, "close");
  });
});
