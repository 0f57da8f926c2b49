// The targets of this coordinator, for npm run bench: each with what the run gave, and what bare workerd gave for the same work.
import { BASE, type Cell, FLOOR, hundredths, jobInPolls, markdown, median, ratio, type Results, typical } from "./figures.ts";

/** A target: a figure of ours, and the most or the least that it should be. `of` returns the figure of a system, NaN where the run does not have it. */
type Target = { what: string; most?: number; least?: number; of: (results: Results, system: typeof BASE | typeof FLOOR) => number };

const WORKERS = 64;
const RATE = 450;

const jobs =
  (peer: string, waits: boolean): Target["of"] =>
  (results, system) =>
    ratio(results, waits ? `${system}-wait` : system, peer, { workers: WORKERS, figure: (cell) => cell.jobsPerSecond });
const latency =
  (figure: (cell: Cell) => number): Target["of"] =>
  (results, system) =>
    ratio(results, system, "bullmq", { workers: WORKERS, rate: RATE, figure });
/** Each of a system's own figures at full load, those that it has. */
const own = (results: Results, system: string, figure: (cell: Cell) => number | null): number =>
  median(results.cells.filter((cell) => cell.system === system && cell.workers === WORKERS && cell.rate === null).flatMap((cell) => figure(cell) ?? []));

const TARGETS: readonly Target[] = [
  { what: "jobs/s ÷ BullMQ, commit + GET", least: 1.4, of: jobs("bullmq", false) },
  { what: "jobs/s ÷ BullMQ, `Prefer: wait`", least: 1.9, of: jobs("bullmq", true) },
  { what: "jobs/s ÷ NATS, `Prefer: wait`", least: 1, of: jobs("nats", true) },
  { what: "jobs/s ÷ plain Node, commit + GET", least: 0.38, of: jobs("plain", false) },
  { what: "jobs/s ÷ plain Node, `Prefer: wait`", least: 0.55, of: jobs("plain", true) },
  { what: `p50 at ${RATE} jobs/s ÷ BullMQ`, most: 1, of: latency((cell) => cell.p50) },
  { what: `p99 at ${RATE} jobs/s ÷ BullMQ`, most: 1.5, of: latency((cell) => cell.p99) },
  {
    what: "CPU of a job ÷ that of one poll",
    most: 3.9,
    of: (results, system) => jobInPolls(results, system, WORKERS),
  },
  {
    what: "ms from commit to `job_assign`, one job at a time",
    most: 3,
    of: (results, system) => typical(results, system, 1, null, ({ dispatch }) => dispatch ?? Number.NaN),
  },
  { what: "fsyncs per job", most: 0.06, of: (results, system) => own(results, `${system}-wait`, ({ perJob }) => perJob.fsyncs) },
];

/** The targets that the run has a figure for. */
export function targetTable(results: Results): string[] {
  const rows = TARGETS.flatMap(({ what, most = Infinity, least = -Infinity, of }) => {
    const [ours, floor] = [of(results, BASE), of(results, FLOOR)];
    if (Number.isNaN(ours)) return [];
    const isReached = (figure: number): boolean => figure >= least && figure <= most;
    const verdict = isReached(ours) ? "reached" : isReached(floor) ? "missed" : Number.isNaN(floor) ? "missed" : "missed, and bare workerd misses it too";
    return [[what, least > -Infinity ? `≥ ${least}` : `≤ ${most}`, hundredths(ours), hundredths(floor), verdict]];
  });
  return rows.length === 0 ? [] : [markdown(["Target", "wanted", "this coordinator", "bare workerd", ""], rows)];
}
