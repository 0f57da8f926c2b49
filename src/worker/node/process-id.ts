import { readFileSync } from "node:fs";

/** A process of this machine, told apart from a later one with the same number. */
export type ProcessId = {
  pid: number;
  /** When it started, in a form that only compares (Linux); null where the system does not tell. */
  started: string | null;
};

/** This process. */
export function thisProcess(): ProcessId {
  return { pid: process.pid, started: startOf(process.pid) };
}

/** A process as a part of a file name: `1234-5678`, or `1234-0` where the start is not known. */
export function processTag({ pid, started }: ProcessId): string {
  return `${pid}-${started ?? "0"}`;
}

/** Reads what {@link processTag} wrote; null if it is something else. */
export function readProcessTag(tag: string): ProcessId | null {
  const [, pid, started] = /^([1-9]\d{0,9})-(\d{1,20})$/.exec(tag) ?? [];
  if (pid === undefined || started === undefined) return null;
  return { pid: Number(pid), started: started === "0" ? null : started };
}

/** Whether it still runs. Process ids come again, in a container after every restart: where the system tells, the start must be the same too. */
export function isRunning({ pid, started }: ProcessId): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and belongs to somebody else.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
  return started === null || startOf(pid) === started;
}

function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field may hold spaces and brackets; the start time is field 22.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
