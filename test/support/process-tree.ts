import { readdirSync, readFileSync } from "node:fs";

/** A running process. */
export type Process = { pid: number; parent: number; command: string };

/** All descendants of a process now, from /proc. */
export function descendants(pid: number): Process[] {
  const all = processes();
  const found: Process[] = [];
  const visit = (parent: number): void => {
    for (const process of all.filter((candidate) => candidate.parent === parent)) {
      found.push(process);
      visit(process.pid);
    }
  };
  visit(pid);
  return found;
}

/** The processes of workerd below a process: those that run our code. */
export function runtimesOf(pid: number): Process[] {
  return descendants(pid).filter(({ command }) => command.includes("workerd serve"));
}

/** The memory in use of the workerd below a process, in MiB. @throws if there is none */
export function runtimeMemory(pid: number): number {
  const [runtime] = runtimesOf(pid);
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${runtime?.pid}/status`, "utf8")) ?? [];
  return Number(kib) / 1_024;
}

/** Those of `pids` that still run. A dead one that nobody waited for does not count. */
export function stillRunning(pids: readonly number[]): Process[] {
  const wanted = new Set(pids);
  return processes().filter((process) => wanted.has(process.pid));
}

function processes(): Process[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
        return state === "Z" ? [] : [{ pid: Number(name), parent: Number(parent), command }];
      } catch {
        // It ended while we looked.
        return [];
      }
    });
}
