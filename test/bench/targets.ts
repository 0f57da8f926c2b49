// The targets of this coordinator, for npm run bench: each with what the run gave, and what bare workerd gave for the same work.
import { BASE, type Cell, FLOOR, hundredths, jobInPolls, markdown, median, ratio, type Results, SYNCED, typical } from "./figures.ts";

/** A figure of a system; NaN where the run does not have it. */
type Figure = (results: Results, system: typeof BASE | typeof FLOOR) => number;
/** A target: a figure of ours, and the most or the least that it should be. `synced` is the same figure against the peer that is as durable as ours. */
type Target = { what: string; most?: number; least?: number; of: Figure; synced?: Figure };

const WORKERS = 64;
/** Where a system has so many jobs that it need not wait for any of them. */
const MANY_WORKERS = 256;
const RATE = 450;

const jobs =
  (peer: string, waits: boolean, workers = WORKERS): Figure =>
  (results, system) =>
    ratio(results, waits ? `${system}-wait` : system, peer, { workers, figure: (cell) => cell.jobsPerSecond });
const latency =
  (peer: string, figure: (cell: Cell) => number): Figure =>
  (results, system) =>
    ratio(results, system, peer, { workers: WORKERS, rate: RATE, figure });
const ofBullMq = (figure: (peer: string) => Figure): Pick<Target, "of" | "synced"> => ({ of: figure("bullmq"), synced: figure(SYNCED) });
/** Each of a system's own figures at full load, those that it has. */
const own = (results: Results, system: string, figure: (cell: Cell) => number | null): number =>
  median(results.cells.filter((cell) => cell.system === system && cell.workers === WORKERS && cell.rate === null).flatMap((cell) => figure(cell) ?? []));

const TARGETS: readonly Target[] = [
  { what: "jobs/s ÷ BullMQ, commit + GET", least: 1.4, ...ofBullMq((peer) => jobs(peer, false)) },
  { what: "jobs/s ÷ BullMQ, `Prefer: wait`", least: 1.9, ...ofBullMq((peer) => jobs(peer, true)) },
  { what: `the same with ${MANY_WORKERS} workers, commit + GET`, least: 1.4, ...ofBullMq((peer) => jobs(peer, false, MANY_WORKERS)) },
  { what: `the same with ${MANY_WORKERS} workers, \`Prefer: wait\``, least: 1.9, ...ofBullMq((peer) => jobs(peer, true, MANY_WORKERS)) },
  { what: "jobs/s ÷ NATS, `Prefer: wait`", least: 1, of: jobs("nats", true) },
  { what: "jobs/s ÷ plain Node, commit + GET", least: 0.38, of: jobs("plain", false) },
  { what: "jobs/s ÷ plain Node, `Prefer: wait`", least: 0.55, of: jobs("plain", true) },
  { what: `p50 at ${RATE} jobs/s ÷ BullMQ`, most: 1, ...ofBullMq((peer) => latency(peer, (cell) => cell.p50)) },
  { what: `p99 at ${RATE} jobs/s ÷ BullMQ`, most: 1.5, ...ofBullMq((peer) => latency(peer, (cell) => cell.p99)) },
  { what: "CPU of a job ÷ that of one poll, commit + GET", most: 3.9, of: (results, system) => jobInPolls(results, system, WORKERS) },
  { what: "CPU of a job ÷ that of one poll, `Prefer: wait`", most: 3.9, of: (results, system) => jobInPolls(results, `${system}-wait`, WORKERS) },
  {
    what: "ms from commit to `job_assign`, one job at a time",
    most: 3,
    of: (results, system) => typical(results, system, 1, null, ({ dispatch }) => dispatch ?? Number.NaN),
  },
  { what: "fsyncs per job", most: 0.06, of: (results, system) => own(results, `${system}-wait`, ({ syncs }) => syncs?.perJob ?? null) },
];

/** The targets that the run has a figure for. */
export function targetTable(results: Results): string[] {
  const rows = TARGETS.flatMap(({ what, most = Infinity, least = -Infinity, of, synced }) => {
    const [ours, floor, durable] = [of(results, BASE), of(results, FLOOR), synced?.(results, BASE) ?? Number.NaN];
    if (Number.isNaN(ours)) return [];
    const isReached = (figure: number): boolean => figure >= least && figure <= most;
    const reasons = [
      ...(Number.isNaN(floor) || isReached(floor) ? [] : ["bare workerd misses it too"]),
      ...(isReached(durable) ? ["reached beside BullMQ that syncs each write"] : []),
    ];
    const verdict = isReached(ours) ? "reached" : ["missed", ...reasons].join("; ");
    return [[what, least > -Infinity ? `≥ ${least}` : `≤ ${most}`, hundredths(ours), hundredths(floor), hundredths(durable), verdict]];
  });
  return rows.length === 0
    ? []
    : [markdown(["Target", "wanted", "this coordinator", "bare workerd", "this coordinator ÷ BullMQ that syncs each write", ""], rows)];
}
