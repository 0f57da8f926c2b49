import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Cell, CurvePoint, Results } from "../../bench/figures.ts";
import { kindOf, shares } from "../../bench/kinds.ts";
import { plot } from "../../bench/plot.ts";
import { curveTable, shown, table } from "../../bench/report.ts";
import { syncCost, syncTimes } from "../../bench/syncs.ts";
import { targetTable } from "../../bench/targets.ts";

function cell(system: string, round: number, jobsPerSecond: number, fields: Partial<Cell> = {}): Cell {
  return {
    ...{
      system,
      round,
      turn: 1,
      workers: 64,
      rate: null,
      jobs: 100,
      jobsPerSecond,
      p50: 1,
      p99: 2,
      dispatch: null,
      cpuPerJob: 1_000,
      programs: { workerd: 1_000 },
      probes: {},
      kinds: null,
      syncs: null,
      memory: 5e6,
      foreign: 0,
    },
    perJob: { frames: 3, frameBytes: 800, requests: 2, httpBytes: 900 },
    ...fields,
  };
}

function results(cells: readonly Cell[]): Results {
  const labels = { ours: "this coordinator", peer: "a peer & its store" };
  return { plan: { warmSeconds: 6, rounds: 3, workers: [64], rates: [450], seconds: 1 }, pinned: true, skipped: [], noise: 0.3, labels, cells };
}

/** In the second round the machine is half as fast for both. */
const CELLS = [cell("ours", 1, 800), cell("peer", 1, 400), cell("ours", 2, 450), cell("peer", 2, 200), cell("ours", 3, 820), cell("peer", 3, 400)];

const row = (text: string, label: string): string[] =>
  text
    .split("\n")
    .find((line) => line.startsWith(`| ${label} |`))
    ?.split("|")
    .map((part) => part.trim()) ?? [];

it("the table has the medians over the rounds, and ratios of figures of the same round", () => {
  const text = table(results(CELLS));
  expect(row(text, "this coordinator")[2]).toBe("800");
  const peer = row(text, "a peer & its store");
  expect(peer[2]).toBe("400");
  // 2, 2.25 and 2.05: not 800 / 400.
  expect(peer).toContain("2.05");
});

it("a ratio is taken within a turn: the machine may be twice as fast in the next one", () => {
  const turns = [cell("ours", 1, 800), cell("peer", 1, 400), cell("ours", 1, 400, { turn: 2 }), cell("peer", 1, 200, { turn: 2 })];
  // The slow turn of the peer alone: without its pair it says nothing.
  const text = table(results([...turns, cell("peer", 1, 100, { turn: 3 })]));
  expect(row(text, "a peer & its store")).toContain("2.00");
});

it("ours and the bare platform are divided by each peer, in the same round", () => {
  const cells = [...CELLS, ...[cell("bare", 1, 1_600), cell("bare", 2, 800), cell("bare", 3, 1_640)]];
  const text = table({ ...results(cells), labels: { ours: "this coordinator", bare: "bare workerd", peer: "a peer" } });
  expect(text).toContain("| Jobs/s at 64 workers ÷ those of | a peer | bare workerd, the same way |");
  expect(text).toContain("| this coordinator | 2.05 | 0.50 |");
  expect(text).toContain("| bare workerd | 4.00 | 1.00 |");
});

it("the CPU time of a job is divided by that of a poll", () => {
  const polled = [400, 200, 500].map((poll, n) => cell("ours-alone", n + 1, 800, { probes: { poll } }));
  expect(table(results([...polled, cell("ours", 1, 800)]))).toContain("| 900 | 2.50 |");
  const waited = [
    cell("ours-wait", 1, 900, { cpuPerJob: 800 }),
    cell("bare", 1, 900, { probes: { poll: 160 } }),
    cell("bare-wait", 1, 900, { cpuPerJob: 640 }),
  ];
  const [targets = ""] = targetTable(results([...polled, cell("ours", 1, 800), ...waited]));
  expect(row(targets, "CPU of a job ÷ that of one poll, commit + GET").slice(2, 7)).toEqual(["≤ 3.9", "2.50", "6.25", "–", "reached"]);
  expect(row(targets, "CPU of a job ÷ that of one poll, `Prefer: wait`").slice(2, 7)).toEqual(["≤ 3.9", "2.00", "4.00", "–", "reached"]);
});

const WORKERD = "/app/node_modules/@cloudflare/workerd-linux-64/bin/workerd";

it.each([
  ["tcp_sendmsg", "[kernel.kallsyms]", "kernel: sockets, disk, threads"],
  ["kj::_::Event::armDepthFirst", WORKERD, "workerd: event loop, HTTP, RPCs, sockets"],
  ["cxxbridge1$box$workerd$server$KeepAlive$drop", WORKERD, "workerd: event loop, HTTP, RPCs, sockets"],
  ["(anonymous namespace)::fe_mul_impl", WORKERD, "signatures and hashes"],
  ["sha256_block_data_order_hw", WORKERD, "signatures and hashes"],
  ["sqlite3VdbeExec", WORKERD, "SQLite"],
  ["balance", WORKERD, "SQLite"],
  ["tcmalloc::tcmalloc_internal::ThreadCache::ReleaseToTransferCache", WORKERD, "malloc, and copies of memory"],
  ["__memmove_avx512_unaligned_erms", "/usr/lib/x86_64-linux-gnu/libc.so.6", "malloc, and copies of memory"],
  ["v8::internal::Scavenger::ScavengePage", WORKERD, "garbage collection"],
  ["v8::internal::maglev::KnownNodeAspects::GetTypeUnchecked", WORKERD, "V8: compiling"],
  ["v8::internal::JsonParser<unsigned char>::ParseJson", WORKERD, "V8: JavaScript, its built-in functions and its runtime"],
  ["Builtins_MapPrototypeGet", WORKERD, "V8: JavaScript, its built-in functions and its runtime"],
  ["[unknown]", "/tmp/perf-4711.map", "V8: JavaScript, its built-in functions and its runtime"],
])("%s of %s is %s", (name, object, kind) => {
  expect(kindOf(name, object)).toBe(kind);
});

it("the CPU time of a job is divided by the samples of each kind, at full load and at the rate", () => {
  const sample = (name: string, object: string): string => ` 55d0c0ffee00 ${name} (${object})\n`;
  const kinds = shares([...Array<string>(3).fill(sample("sqlite3VdbeExec", WORKERD)), sample("v8::internal::Scavenger::Process", WORKERD)].join(""));
  const text = table(results([...CELLS, cell("ours", 4, 800, { kinds }), cell("ours", 1, 450, { rate: 450, cpuPerJob: 2_000, kinds })]));
  expect(row(text, "SQLite")[2]).toBe("750");
  expect(row(text, "garbage collection")[2]).toBe("250");
  expect(row(text, "V8: compiling")[2]).toBe("0");
  expect(row(text, "all")[2]).toBe("1,000");
  const paced = text.slice(text.indexOf("CPU µs per job, 450 jobs/s"));
  expect(row(paced, "SQLite")[2]).toBe("1,500");
});

it("a sync lasts from where a thread begins it to where the same thread has it", () => {
  const event = (thread: number, time: number, name: string): string => `  ${thread}  ${time.toFixed(6)}:  syscalls:sys_${name}: \n`;
  const script = [
    // It had begun before.
    event(7, 100, "exit_fsync"),
    event(7, 100.001, "enter_fsync"),
    event(8, 100.002, "enter_fdatasync"),
    event(7, 100.004, "exit_fsync"),
    event(8, 100.003, "exit_fdatasync"),
    // It has not ended.
    event(7, 100.005, "enter_fsync"),
  ].join("");
  const times = syncTimes(script);
  expect(times.count).toBe(2);
  expect(times.seconds).toBeCloseTo(0.004, 6);
  const { perJob, ms, share } = syncCost(times, 40, 0.02);
  expect([perJob, ms, share].map((value) => Number(value.toFixed(6)))).toEqual([0.05, 2, 0.2]);
});

it("the syncs of a system are shown at full load and at the highest rate, with the CPU that it uses of its core", () => {
  const syncs = { perJob: 0.0754, ms: 1.2, share: 0.184 };
  const watched = [cell("ours", 1, 800, { syncs }), cell("ours", 2, 600), cell("ours", 1, 450, { rate: 450, syncs: { perJob: 1.05, ms: 0.9, share: 0.42 } })];
  const text = table(results([...watched, cell("peer", 1, 400)]));
  const [from = ""] = text.slice(text.indexOf("| Syncs of the disk |")).split("\n\n");
  expect(row(from, "this coordinator").slice(2, 9)).toEqual(["70 %", "0.075", "1.20", "18 %", "1.050", "0.90", "42 %"]);
  expect(row(from, "a peer & its store")).toEqual([]);
  expect(table(results(CELLS))).not.toContain("Syncs of the disk");
});

it("the floor is the sum of its parts, each as often as it is in a job", () => {
  const probes = { edge: 100, poll: 180, write: 240, receipt: 260 };
  const text = table({ ...results([...CELLS, cell("bare", 1, 900, { probes })]), labels: { ours: "this coordinator", bare: "bare workerd" } });
  expect(row(text, "an HTTP request that the Worker answers alone").slice(2, 5)).toEqual(["100", "2", "20 %"]);
  expect(row(text, "an RPC from it to the Durable Object").slice(2, 5)).toEqual(["80", "1", "8 %"]);
  // 200 + 80 + 120 + 80 of 1,000.
  expect(row(text, "all of them").slice(2, 5)).toEqual(["480", "", "48 %"]);
  expect(table(results(CELLS))).not.toContain("all of them");
  // A row that costs less than the request it came with: the rounds of this run say nothing about parts.
  const noise = table({ ...results([...CELLS, cell("bare", 1, 900, { probes: { ...probes, write: 170 } })]), labels: { bare: "bare workerd" } });
  expect(noise).toContain("their rounds differ by more than a part costs");
  expect(noise).not.toContain("all of them");
});

it("the dispatch is shown for each system whose workers have a WebSocket", () => {
  const times = [cell("ours", 1, 800, { dispatch: 1.2 }), cell("ours", 2, 800, { dispatch: 3.4 }), cell("ours", 3, 800, { dispatch: 1.6 })];
  const text = table(results([...times, cell("ours", 1, 450, { rate: 450, dispatch: 2.34 }), cell("peer", 1, 400)]));
  expect(text).toContain(
    "| ms from commit to `job_assign`, p50 | 64 jobs at a time | at 450 jobs/s |\n| --- | --- | --- |\n| this coordinator | 1.6 | 2.3 |\n\n",
  );
  expect(table(results(CELLS))).not.toContain("job_assign");
});

it("a curve has the medians over the rounds, and its growth is that within the rounds", () => {
  const point = (size: number, round: number, cpuPerJob: number): CurvePoint => ({
    ...{ curve: "stored", size, round, cpuPerJob, statements: 3, d1Statements: 2 / size, jobsPerSecond: 1e6 / cpuPerJob, p50: 1, foreign: 0 },
  });
  const points = [point(10, 1, 400), point(1_000, 1, 420), point(10, 2, 800), point(1_000, 2, 800), point(10, 3, 410), point(1_000, 3, 451)];
  const rows = curveTable(points, [{ name: "stored", label: "stored jobs" }]).split("\n");
  expect(rows[2]).toBe("| stored jobs | 10 | 410 | 1.00 | 3.00 | 1.00 | 0.200 | 2,439 |");
  expect(rows[3]).toBe("|  | 1,000 | 451 | 1.05 | 3.00 | 1.00 | 0.002 | 2,217 |");
});

it("says what could not be measured, and which measurements were disturbed", () => {
  const disturbed = { ...results([...CELLS, cell("ours", 1, 450, { rate: 450, foreign: 1.5 })]), skipped: ["a peer: its server cannot be had"] };
  const text = table(disturbed);
  expect(text).toContain("Skipped: a peer: its server cannot be had.");
  expect(text).toContain("In 1 of 7 measurements other programs used more than 0.3 cores");
  expect(text).toContain("The syncs of the disk were not watched: that needs perf, and root.");
  expect(row(text, "a peer & its store").join()).toContain("– / –");
});

it("the plot has a line per system and is well-formed", () => {
  const svg = plot(results(CELLS));
  expect(svg.match(/<polyline /g)).toHaveLength(2);
  expect(svg).toContain("a peer &amp; its store");
  expect(svg).not.toMatch(/NaN|undefined|Infinity/);
});

it("a system that falls behind its rate is named, and that turn of a peer is not in the ratio of latencies", () => {
  const turns = [
    ...[cell("ours", 1, 450, { rate: 450, p50: 6 }), cell("bullmq", 1, 450, { rate: 450, p50: 5 })],
    ...[cell("ours", 1, 449, { rate: 450, turn: 2, p50: 6 }), cell("bullmq", 1, 313, { rate: 450, turn: 2, p50: 900 })],
  ];
  const text = table({ ...results(turns), labels: { ours: "this coordinator", bullmq: "BullMQ" } });
  expect(text).toContain("Fell behind the rate, with a queue that grew: BullMQ at 450 jobs/s in 1 of 2 turns.");
  expect(row(text, "p50 at 450 jobs/s ÷ BullMQ").slice(2, 4)).toEqual(["≤ 1", "1.20"]);
  expect(row(text, "BullMQ").at(5)).toBe("5.0 / 2.0, in 1 of 2 turns");
  // One of ours counts: it is no excuse.
  const late = turns.map((one) => (one.system === "ours" ? { ...one, jobsPerSecond: 400, p50: 10 } : one));
  expect(row(targetTable(results(late))[0] ?? "", "p50 at 450 jobs/s ÷ BullMQ")[3]).toBe("2.00");
  expect(row(table(results(late)), "this coordinator").at(5)).toBe("fell behind");
});

it("the CPU of a job is told for each program of a system", () => {
  const programs = [
    { "Node.js": 90, workerd: 300, taskset: 0 },
    { "Node.js": 110, workerd: 280 },
    { "Node.js": 300, "redis-server": 80 },
  ];
  const cells = programs.map((own, n) => cell(n < 2 ? "ours" : "bullmq", 1, 100, { turn: (n % 2) + 1, programs: own }));
  const text = table({ ...results(cells), labels: { ours: "this coordinator", bullmq: "BullMQ" } });
  const [, own = ""] = text.split("| CPU µs per job of each program, 64 workers | Node.js | workerd | redis-server |\n");
  expect(row(own, "this coordinator").slice(2, 5)).toEqual(["100", "290", ""]);
  expect(row(own, "BullMQ").slice(2, 5)).toEqual(["300", "", "80"]);
});

it("the README has a place for the figures, and a second run replaces those of the first", () => {
  const readme = readFileSync(join(import.meta.dirname, "..", "..", "..", "README.md"), "utf8");
  const once = shown(readme, "| first |");
  expect(shown(once, "| second |")).toBe(once.replace("| first |", "| second |"));
  expect(() => shown("no marks", "")).toThrow("README.md lacks the marks");
});

it("each target has what ours and the bare platform gave; a missed one says if the platform misses it too, and if the durable peer does not", () => {
  const of = (turn: number, factor: number) => [
    cell("ours", 1, 140 * factor, { turn }),
    cell("ours-wait", 1, 120 * factor, { turn, syncs: { perJob: 0.05, ms: 1, share: 0.1 } }),
    cell("bare", 1, 160 * factor, { turn }),
    cell("bare-wait", 1, 150 * factor, { turn }),
    cell("bullmq", 1, 100 * factor, { turn }),
    cell("bullmq-synced", 1, 60 * factor, { turn }),
    cell("nats", 1, 130 * factor, { turn }),
  ];
  const slow = [
    cell("ours", 1, 450, { rate: 450, p50: 4, p99: 9 }),
    cell("bullmq", 1, 450, { rate: 450, p50: 4, p99: 5 }),
    cell("bullmq-synced", 1, 450, { rate: 450, p50: 8, p99: 5 }),
    cell("bare", 1, 450, { rate: 450, p99: 6 }),
  ];
  const [text = ""] = targetTable(results([...of(1, 1), ...of(2, 2), ...slow]));
  expect(row(text, "jobs/s ÷ BullMQ, commit + GET").slice(2, 7)).toEqual(["≥ 1.4", "1.40", "1.60", "2.33", "reached"]);
  expect(row(text, "jobs/s ÷ BullMQ, `Prefer: wait`").slice(2, 7)).toEqual([
    ...["≥ 1.9", "1.20", "1.50", "2.00"],
    "missed; bare workerd misses it too; reached beside BullMQ that syncs each write",
  ]);
  expect(row(text, "jobs/s ÷ NATS, `Prefer: wait`").slice(2, 7)).toEqual(["≥ 1", "0.92", "1.15", "–", "missed"]);
  expect(row(text, "p50 at 450 jobs/s ÷ BullMQ").slice(2, 7)).toEqual(["≤ 1", "1.00", "0.25", "0.50", "reached"]);
  expect(row(text, "p99 at 450 jobs/s ÷ BullMQ").slice(2, 7)).toEqual(["≤ 1.5", "1.80", "1.20", "1.80", "missed"]);
  expect(row(text, "fsyncs per job").slice(2, 7)).toEqual(["≤ 0.06", "0.05", "–", "–", "reached"]);
  const many = [cell("ours", 1, 900, { workers: 256 }), cell("ours-wait", 1, 1_140, { workers: 256 }), cell("bullmq", 1, 600, { workers: 256 })];
  const [crowd = ""] = targetTable(results([...of(1, 1), ...many]));
  expect(row(crowd, "the same with 256 workers, commit + GET").slice(2, 7)).toEqual(["≥ 1.4", "1.50", "–", "–", "reached"]);
  expect(row(crowd, "the same with 256 workers, `Prefer: wait`").slice(2, 7)).toEqual(["≥ 1.9", "1.90", "–", "–", "reached"]);
  expect(text).not.toContain("256 workers");
  // What was not measured is no target of this run.
  expect(text).not.toContain("plain Node");
  expect(text).not.toContain("one poll");
  expect(targetTable(results([]))).toEqual([]);
});
