import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../..");
const COPIED = [
  "src",
  "scripts",
  "migrations",
  "package.json",
  "wrangler.evm.toml",
  "wrangler.svm.toml",
  "tsconfig.base.json",
  "tsconfig.json",
  "test/tsconfig.json",
];

/** Coordinators run from a copy: an edit of the sources would restart them in the middle of a test. */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "conformance-snapshot-"));
  for (const name of COPIED) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  process.env.CONFORMANCE_ROOT = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
