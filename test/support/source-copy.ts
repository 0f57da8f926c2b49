import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "../../scripts/coordinator-process.ts";

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

/** A copy of the sources for coordinators to run from: an edit of the tree would restart them in the middle of a test. `more` names further files. */
export function copySources(name: string, more: readonly string[] = []): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  for (const path of [...COPIED, ...more]) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }) };
}
