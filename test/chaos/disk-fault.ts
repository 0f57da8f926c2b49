import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

/** What a disk does wrong, as strace injects it into the system calls of a process. */
const DISK_FAULTS = {
  "slow fsync": ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_exit=150000"],
  "failing fsync": ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"],
  "full disk": ["-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC"],
} as const;
export type DiskFault = keyof typeof DISK_FAULTS;

/** Why disks cannot be made to fail here; null when they can. */
export function whyNoDiskFaults(): string | null {
  const probe = spawnSync("strace", ["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_exit=1", "true"], { encoding: "utf8" });
  if (probe.error !== undefined) return "strace is not installed";
  return probe.status === 0 ? null : `strace may not trace: ${probe.stderr.trim().split("\n")[0]}`;
}

/** The disk of these processes misbehaves for so long. */
export async function breakDisk(pids: readonly number[], fault: DiskFault, ms: number): Promise<void> {
  const targets = pids.flatMap((pid) => ["-p", String(pid)]);
  const strace = spawn("strace", ["-f", "-qq", "-o", "/dev/null", ...DISK_FAULTS[fault], ...targets], { stdio: "ignore" });
  const ended = once(strace, "exit");
  await delay(ms);
  strace.kill("SIGINT");
  await ended;
}
