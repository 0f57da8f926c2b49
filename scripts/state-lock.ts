import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Takes a state folder for this process; two coordinators on one state would spoil it. Null: a living process has it. */
export function lockState(stateDir: string): { release(): void } | null {
  const file = join(stateDir, "coordinator.pid");
  const holder = readHolder(file);
  if (holder !== null && isAlive(holder)) return null;
  rmSync(file, { force: true });
  try {
    writeFileSync(file, `${process.pid}\n`, { flag: "wx" });
  } catch {
    // Another process was a moment faster.
    return null;
  }
  return { release: () => rmSync(file, { force: true }) };
}

function readHolder(file: string): number | null {
  try {
    return Number(readFileSync(file, "utf8")) || null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
