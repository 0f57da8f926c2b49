import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atTheEnd } from "./ends.ts";

/** A folder that goes with the test, or with the tests that share it. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "compute-router-worker-"));
  atTheEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
