import { takeFileLock } from "../src/worker/node/file-lock.ts";

/** Takes a state folder for this process; two coordinators on one state would spoil it. Null: a living process has it. */
export function lockState(stateDir: string): { release(): void } | null {
  const lock = takeFileLock(stateDir, "coordinator");
  return lock.ok ? lock : null;
}
