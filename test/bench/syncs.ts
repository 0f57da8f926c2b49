// What the syncs of the disk cost a system: events of Linux perf, one when a thread begins a sync and one when it has it.

/** The system calls that sync a file. */
const CALLS = ["fsync", "fdatasync"];
/** The events of perf that tell of them. */
export const SYNC_EVENTS = CALLS.flatMap((call) => [`syscalls:sys_enter_${call}`, `syscalls:sys_exit_${call}`]).join(",");

/** The syncs of some time: how many, and how long all of them together took, s. */
export type SyncTimes = { count: number; seconds: number };

/** The syncs in events, as `perf script -F tid,time,event` prints them. One that had begun before the first event, or ends after the last, does not count. */
export function syncTimes(script: string): SyncTimes {
  const began = new Map<string, number>();
  const times = { count: 0, seconds: 0 };
  for (const [, thread = "", time, side] of script.matchAll(/^\s*(\d+)\s+(\d+\.\d+):\s+syscalls:sys_(enter|exit)_\w+/gm)) {
    const from = began.get(thread);
    began.delete(thread);
    if (side === "enter") began.set(thread, Number(time));
    else if (from !== undefined) {
      times.count++;
      times.seconds += Number(time) - from;
    }
  }
  return times;
}

/** What syncs cost: how many there are per job, the mean time of one, ms, and the share of all time in which one is under way. */
export type SyncCost = { perJob: number; ms: number; share: number };

/** The cost of syncs that belong to so many jobs in so many seconds. */
export const syncCost = (times: SyncTimes, jobs: number, seconds: number): SyncCost => ({
  perJob: times.count / jobs,
  ms: (1_000 * times.seconds) / times.count,
  share: times.seconds / seconds,
});
