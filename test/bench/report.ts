// What npm run bench prints and writes: its tables, and what they mean.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, release } from "node:os";
import { join } from "node:path";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { WORK_PER_JOB } from "../support/work-per-job.ts";
import type { Probe } from "./driver.ts";
import {
  ALONE,
  BASE,
  type Cell,
  type CurvePoint,
  FLOOR,
  hundredths,
  jobInPolls,
  keptUp,
  markdown,
  median,
  ratio,
  type Results,
  tenths,
  typical,
  whole,
} from "./figures.ts";
import { KINDS } from "./kinds.ts";
import { plot } from "./plot.ts";
import { targetTable } from "./targets.ts";

const FOLDER = join(ROOT, "docs", "benchmarks");
const README = join(ROOT, "README.md");

/** The curves as a table: medians over the rounds, and ratios to the smallest size in the same round. */
export function curveTable(points: readonly CurvePoint[], curves: readonly { name: string; label: string }[]): string {
  const rows = curves.flatMap(({ name, label }) => {
    const own = points.filter(({ curve }) => curve === name);
    const sizes = [...new Set(own.map(({ size }) => size))].toSorted((a, b) => a - b);
    return sizes.map((size, index) => {
      const of = (figure: (point: CurvePoint) => number): number => median(own.filter((point) => point.size === size).map(figure));
      const growth = (figure: (point: CurvePoint) => number): number =>
        median(
          own.flatMap((point) => {
            const least = own.find((other) => other.size === sizes[0] && other.round === point.round);
            return point.size !== size || least === undefined ? [] : [figure(point) / figure(least)];
          }),
        );
      return [
        ...[index === 0 ? label : "", size.toLocaleString("en-US"), whole(of((point) => point.cpuPerJob)), hundredths(growth((point) => point.cpuPerJob))],
        ...[
          hundredths(of((point) => point.statements)),
          hundredths(growth((point) => point.statements)),
          of((point) => point.d1Statements).toFixed(3),
          whole(of((point) => point.jobsPerSecond)),
        ],
      ];
    });
  });
  return markdown(["What grows", "size", "CPU µs per job", "÷ smallest", "statements per job", "÷ smallest", "D1 statements per job", "jobs/s"], rows);
}

/** All tables and what is to be said of them, as Markdown. */
export function table(results: Results): string {
  return [
    systemsTable(results),
    ...ratioTable(results),
    ...targetTable(results),
    ...dispatchTable(results),
    ...syncTable(results),
    ...workTable(results, mostOf(results)),
    ...floorTable(results),
    ...programsTable(results),
    ...kindsTable(results),
    ...remarks(results),
  ].join("\n\n");
}

/** The number of workers for figures that are given once. */
const mostOf = ({ plan }: Results): number => (plan.workers.includes(64) ? 64 : (plan.workers.at(-1) ?? 64));

function systemsTable(results: Results): string {
  const { plan, labels } = results;
  const most = mostOf(results);
  const head = [
    "System",
    ...plan.workers.map((workers) => `jobs/s, ${workers} worker${workers === 1 ? "" : "s"}`),
    ...[`CPU µs per job, ${most}`, `MB, ${most}`],
    ...plan.rates.map((rate) => `p50 / p99 ms at ${rate} jobs/s`),
    ...["jobs/s, ours ÷ it", "CPU, ours ÷ it"],
  ];
  const rows = Object.entries(labels).map(([system, label]) => [
    label,
    ...plan.workers.map((workers) => whole(typical(results, system, workers, null, (cell) => cell.jobsPerSecond))),
    whole(typical(results, system, most, null, (cell) => cell.cpuPerJob)),
    whole(typical(results, system, most, null, (cell) => cell.memory / 1e6)),
    ...plan.rates.map((rate) => latencies(results.cells.filter((cell) => cell.system === system && cell.rate === rate))),
    ...[(cell: Cell) => cell.jobsPerSecond, (cell: Cell) => cell.cpuPerJob].map((figure) =>
      hundredths(ratio(results, BASE, system, { workers: most, figure })),
    ),
  ]);
  return markdown(head, rows);
}

/** p50 and p99 of the turns in which a system kept up with the rate, and how many these are if there were others. */
function latencies(turns: readonly Cell[]): string {
  const kept = turns.filter(keptUp);
  if (kept.length === 0 && turns.length > 0) return "fell behind";
  const of = (figure: (cell: Cell) => number): string => tenths(median(kept.map(figure)));
  return `${of((cell) => cell.p50)} / ${of((cell) => cell.p99)}${kept.length === turns.length ? "" : `, in ${kept.length} of ${turns.length} turns`}`;
}

/** Jobs per second of ours and of bare workerd divided by those of the peers: what this coordinator reaches, and what its platform allows. */
function ratioTable(results: Results): string[] {
  const workers = mostOf(results);
  const names = Object.keys(results.labels);
  const isOnWorkerd = (system: string): boolean => system.startsWith(BASE) || system.startsWith(FLOOR);
  const [tops, peers] = [names.filter(isOnWorkerd), names.filter((system) => !isOnWorkerd(system))];
  if (tops.length === 0 || peers.length === 0) return [];
  const rows = tops.map((top) => [
    results.labels[top] ?? top,
    ...[...peers, top.replace(ALONE, FLOOR).replace(BASE, FLOOR)].map((system) =>
      hundredths(system === top ? 1 : ratio(results, top, system, { workers, figure: (cell) => cell.jobsPerSecond })),
    ),
  ]);
  const head = [`Jobs/s at ${workers} workers ÷ those of`, ...peers.map((system) => results.labels[system] ?? system), "bare workerd, the same way"];
  return [markdown(head, rows)];
}

/** How long a job is under way to its worker, for the systems whose workers have a WebSocket. */
function dispatchTable(results: Results): string[] {
  const { plan, labels, cells } = results;
  const [least = 1] = plan.workers;
  const rows = Object.entries(labels)
    .filter(([system]) => cells.some((cell) => cell.system === system && cell.dispatch !== null))
    .map(([system, label]) => {
      const of = (workers: number, rate: number | null): string => tenths(typical(results, system, workers, rate, ({ dispatch }) => dispatch ?? Number.NaN));
      return [label, of(least, null), ...plan.rates.map((rate) => of(64, rate))];
    });
  if (rows.length === 0) return [];
  const head = [
    "ms from commit to `job_assign`, p50",
    `${least === 1 ? "one job" : `${least} jobs`} at a time`,
    ...plan.rates.map((rate) => `at ${rate} jobs/s`),
  ];
  return [markdown(head, rows), "A job is assigned when it is durable: its time has the sync of the disk in it."];
}

/** What the syncs of the disk take of the time, at full load and at the highest rate, and how much of the core the servers use at full load. */
function syncTable(results: Results): string[] {
  const { plan, labels, cells } = results;
  const [most, rate] = [mostOf(results), Math.max(...plan.rates)];
  const percent = (share: number): string => (Number.isNaN(share) ? "–" : `${(100 * share).toFixed(0)} %`);
  const rows = Object.entries(labels).flatMap(([system, label]) => {
    const own = (load: number | null) => cells.filter((cell) => cell.system === system && cell.workers === most && cell.rate === load);
    const figures = [null, rate].map((load) => own(load).find(({ syncs }) => syncs !== null)?.syncs ?? null);
    if (figures.every((syncs) => syncs === null)) return [];
    const columns = figures.flatMap((syncs) => (syncs === null ? ["–", "–", "–"] : [syncs.perJob.toFixed(3), hundredths(syncs.ms), percent(syncs.share)]));
    return [[label, percent(median(own(null).map(({ jobsPerSecond, cpuPerJob }) => (jobsPerSecond * cpuPerJob) / 1e6))), ...columns]];
  });
  if (rows.length === 0) return [];
  const head = ["syncs per job", "ms each", "of the time"];
  return [
    markdown(
      [
        "Syncs of the disk",
        `CPU of its core, ${most} workers`,
        ...[`${most} workers`, `${rate} jobs/s`].flatMap((load) => head.map((text) => `${text}, ${load}`)),
      ],
      rows,
    ),
    "The events of a few seconds, seen by Linux perf. In workerd and in the plain Node program one thread does everything, and it waits while the disk syncs. Redis with everysec syncs in a thread of its own.",
  ];
}

/** What one job costs in countable things: of ours with and without its front, and of bare workerd. */
function workTable(results: Results, workers: number): string[] {
  const rows = Object.entries(results.labels).flatMap(([system, label]) => {
    const isOf = (name: string): boolean => system === name || system === `${name}-wait`;
    if (![BASE, ALONE, FLOOR].some(isOf)) return [];
    // Behind the front the router is in the hub.
    const rpcs = isOf(BASE) ? [] : WORK_PER_JOB.rpcs[system.endsWith("-wait") ? "waited" : "polled"];
    const perJob = results.cells.find((one) => one.system === system && one.workers === workers && one.rate === null)?.perJob;
    return [
      [
        label,
        ...(system.startsWith(BASE) ? [WORK_PER_JOB.statements.length, rpcs.length].map(String) : ["–", "–"]),
        ...[perJob?.frames, perJob?.requests].map((value) => tenths(value ?? Number.NaN)),
        ...[perJob?.frameBytes, perJob?.httpBytes].map((value) => whole(value ?? Number.NaN)),
        hundredths(jobInPolls(results, system, workers)),
      ],
    ];
  });
  if (rows.length === 0) return [];
  const head = [
    "Per job",
    "SQL statements of the hub",
    "RPCs to the hub",
    "frames",
    "HTTP requests",
    "bytes of frames",
    "bytes of HTTP",
    "CPU ÷ that of one poll",
  ];
  return [
    markdown(head, rows),
    "Statements and RPCs are those of one job alone; `test/edge/hub/work-per-job.test.ts` holds them. The others were counted in this run.",
  ];
}

/** How often each part of a job is in a job of bare workerd that is polled once. The frames of a job cannot be measured alone. */
const PARTS: readonly { label: string; times: number; cost: (probes: Required<Cell["probes"]>) => number }[] = [
  { label: "an HTTP request that the Worker answers alone", times: 2, cost: ({ edge }) => edge },
  { label: "an RPC from it to the Durable Object", times: 1, cost: ({ edge, poll }) => poll - edge },
  { label: "a written row, with its share of the commit and of the output gate", times: 2, cost: ({ poll, write }) => write - poll },
  { label: "the hash and signature of a receipt", times: 1, cost: ({ poll, receipt }) => receipt - poll },
];

/** What the floor is made of: the parts of a job of bare workerd, each measured alone. */
function floorTable(results: Results): string[] {
  const cells = results.cells.filter(({ system, probes }) => system === FLOOR && PROBED.every((probe) => probes[probe] !== undefined));
  if (cells.length === 0) return [];
  const job = median(cells.map(({ cpuPerJob }) => cpuPerJob));
  const of = (cost: (probes: Required<Cell["probes"]>) => number): number =>
    median(cells.map(({ probes: { edge = 0, poll = 0, write = 0, receipt = 0 } }) => cost({ edge, poll, write, receipt })));
  const share = (value: number): string => `${((100 * value) / job).toFixed(0)} %`;
  const sum = PARTS.reduce((total, { times, cost }) => total + times * of(cost), 0);
  if (PARTS.some(({ cost }) => of(cost) <= 0))
    return ["The parts of a job of bare workerd were measured too, but in this run their rounds differ by more than a part costs. results.json has them."];
  const rows = PARTS.map(({ label, times, cost }) => [label, whole(of(cost)), String(times), share(times * of(cost))]);
  return [
    markdown(
      ["Parts of a job of bare workerd, commit + GET", "CPU µs", "in a job", "of its CPU"],
      [...rows, ["all of them", whole(sum), "", share(sum)], ["the job, as measured", whole(job), "", "100 %"]],
    ),
    "The parts were measured one by one with the same driver, 16 at a time. The rest of the job is its three frames, the body of its commit, and the garbage of all that.",
  ];
}

/** Which program of each system uses the CPU. */
function programsTable(results: Results): string[] {
  const workers = mostOf(results);
  const of = (system: string, name: string): number => Math.round(typical(results, system, workers, null, ({ programs }) => programs[name] ?? 0));
  const systems = Object.entries(results.labels).filter(([system]) => results.cells.some((cell) => cell.system === system));
  const names = [...new Set(results.cells.flatMap(({ programs }) => Object.keys(programs)))].filter((name) => systems.some(([system]) => of(system, name) > 0));
  if (names.length === 0) return [];
  const rows = systems.map(([system, label]) => [label, ...names.map((name) => (of(system, name) === 0 ? "" : whole(of(system, name))))]);
  return [
    markdown([`CPU µs per job of each program, ${workers} workers`, ...names], rows),
    "In this coordinator Node.js is the front, which has the connections of clients and workers, and workerd does the rest. In the peers Node.js does everything but the store.",
  ];
}

/** What the CPU of a job is used for, at full load and at the highest rate: that of ours, and that of bare workerd. */
function kindsTable(results: Results): string[] {
  const rate = Math.max(...results.plan.rates);
  const most = mostOf(results);
  const tables = [...kindsAt(results, `${most} workers`, most, null), ...kindsAt(results, `${rate} jobs/s`, 64, rate)];
  if (tables.length === 0) return [];
  return [...tables, "The shares of runs of a few seconds, sampled by Linux perf and sorted by the names of the functions (`test/bench/kinds.ts`)."];
}

function kindsAt({ cells, labels }: Results, load: string, workers: number, rate: number | null): string[] {
  const columns = Object.entries(labels).flatMap(([system, label]) => {
    const own = cells.filter((cell) => cell.system === system && cell.workers === workers && cell.rate === rate);
    const sampled = own.find((cell) => cell.kinds !== null);
    return sampled?.kinds == null ? [] : [{ label, kinds: sampled.kinds, cpu: median(own.map(({ cpuPerJob }) => cpuPerJob)) }];
  });
  if (columns.length === 0) return [];
  const rows = [...KINDS.map((kind) => [kind, ...columns.map(({ kinds, cpu }) => whole(kinds[kind] * cpu))]), ["all", ...columns.map(({ cpu }) => whole(cpu))]];
  return [markdown([`CPU µs per job, ${load}`, ...columns.map(({ label }) => label)], rows)];
}

const PROBED: readonly Probe[] = ["edge", "poll", "write", "receipt"];

function remarks({ cells, labels, noise, pinned, skipped }: Results): string[] {
  const noisy = cells.filter(({ foreign }) => foreign > noise);
  const late = [...Map.groupBy(cells, ({ system, rate }) => `${labels[system] ?? system} at ${rate} jobs/s`)].flatMap(([what, turns]) => {
    const behind = turns.filter((cell) => !keptUp(cell)).length;
    return behind === 0 ? [] : [`${what} in ${behind} of ${turns.length} turns`];
  });
  return [
    ...skipped.map((line) => `Skipped: ${line}.`),
    ...(cells.some(({ syncs }) => syncs !== null) ? [] : ["The syncs of the disk were not watched: that needs perf, and root."]),
    ...(late.length === 0
      ? []
      : [
          `Fell behind the rate, with a queue that grew: ${late.join("; ")}. The latencies above are those of the other turns, and a ratio of latencies leaves a turn out in which the peer fell behind.`,
        ]),
    ...(noisy.length === 0
      ? []
      : [
          `In ${noisy.length} of ${cells.length} measurements other programs used more than ${noise} cores, also when tried again: read those figures with care.`,
        ]),
    ...(pinned ? [] : ["Nothing was pinned to a core."]),
  ];
}

/** Writes the table, the plot and the figures; returns the folder. */
export function write(results: Results): string {
  mkdirSync(FOLDER, { recursive: true });
  const machine = {
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim(),
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    kernel: release(),
    node: process.versions.node,
  };
  const peers: { dependencies: Record<string, string> } = JSON.parse(readFileSync(join(import.meta.dirname, "peers", "package.json"), "utf8"));
  const { dependencies } = peers;
  writeFileSync(join(FOLDER, "results.json"), `${JSON.stringify({ machine, peers: dependencies, ...results }, null, 2)}\n`);
  writeFileSync(join(FOLDER, "jobs-per-second.svg"), plot(results));
  const { date, commit, cpu, cores, node } = machine;
  const text = `# Benchmarks

Written by \`npm run bench\` on ${date} at commit ${commit}: ${cpu}, ${cores} cores, Node ${node}. All servers of a system ran on one core, the driver (workers and
seekers) on another; ${results.plan.rounds} round${results.plan.rounds === 1 ? "" : "s"}, medians. All systems of a round are up, each
is at full load for ${results.plan.warmSeconds} s, and then they take turns at each load: with 64 workers several in each round. A ratio is the median of the ratios within one turn. Compare figures of one run only, because the speed of a machine changes within minutes.

![Jobs per second over the number of workers](jobs-per-second.svg)

${table(results)}

## What is measured

One job: a seeker commits it by HTTP and gets its id when it is durable; one idle worker gets it, answers with output and signed receipt; the coordinator checks both
and stores them; the seeker gets the result. Each worker signs its registration and each result, and each system checks every receipt. Ours runs under
\`npm run serve\` with everything on that it checks in real use; only its limits per client are too high to be reached. The front (docs/self-hosting.md) is part of it, in
a process of its own on the same core; two rows are without it (\`--no-front\`).

Jobs per second: one job in progress for each worker. The seeker polls once, when its worker has been told that the result is stored. At a fixed rate the seeker polls
every 2 ms, or its commit waits for the end, and a latency counts from the moment at which the job was due. A measurement is made again if other programs used more
than ${results.noise} cores meanwhile. [results.json](results.json) has every measurement.

The peers do less than this coordinator: they have no tiers, pairings, payments, retries, time-outs or limits. Redis with "AOF everysec" syncs the disk once a second, and NATS every two
minutes: at a power cut they lose jobs that they had acknowledged. This coordinator, bare workerd, graphile-worker, the plain Node program and BullMQ with "AOF always" acknowledge what is on the disk. Job ids have the same form everywhere (docs/decisions/0017). In the NATS system the workers talk to NATS itself, which only
workers that are trusted may do. The plain Node program is the limit of what JavaScript can do with this work.

Bare workerd is the limit of the platform: a Worker and one Durable Object with as many requests, RPCs, frames and SQL statements per job, which check the receipt and
nothing else. What the coordinator needs beyond it is the work of its own checks, its ledger and its copy in D1
(docs/decisions/0016). The poll that a job is compared with is one request with one RPC to the hub, without the front, because with it a poll makes none. That of a job which has just ended needs no RPC (docs/decisions/0018).
Its writes keep the coordinator's pace (docs/decisions/0014).

D1 gets the ended jobs, up to 256 of them with two statements: [the curves](curves.md) count them.
`;
  writeFileSync(join(FOLDER, "README.md"), text);
  const readme = readFileSync(README, "utf8");
  writeFileSync(README, shown(readme, `![Jobs per second over the number of workers](docs/benchmarks/jobs-per-second.svg)\n\n${systemsTable(results)}`));
  return FOLDER;
}

/** A text with `figures` between its two marks. @throws if a mark is missing */
export function shown(text: string, figures: string): string {
  const [begin, end] = ["<!-- figures of npm run bench -->", "<!-- end of the figures -->"];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`README.md lacks the marks ${begin} and ${end}`);
  return `${text.slice(0, from + begin.length)}\n\n${figures}\n\n${text.slice(to)}`;
}
