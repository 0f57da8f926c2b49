// npm run bundle:sizes: what is uploaded of the coordinator, and how much of it is there for payments. The difference is what the bundler leaves out of the
// same sources with a gate that is always open.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { ROOT, startWrangler } from "./coordinator-process.ts";

/** What takes the place of the modules that lead to the rest of payments; each keeps the names that others import from it. */
const WITHOUT_GATE: Readonly<Record<string, string>> = {
  "gate.ts": "export const gate = () => (_c, next) => next();",
  "paid-commit.ts": "export const paidCommit = () => { throw new Error('no payments'); };",
  "facilitator.ts": "export const settlePayment = () => { throw new Error('no payments'); };",
};

/** Bundles what lies in `folder` as a deployment does, minified or not; the size is that of its gzip, in bytes. @throws when it does not bundle */
async function gzippedSize(folder: string, minify: boolean): Promise<number> {
  const out = join(folder, "out");
  const options = ["--dry-run", "-c", join(folder, "wrangler.evm.toml"), "--outdir", out, ...(minify ? ["--minify"] : [])];
  const child = startWrangler(["deploy", ...options], folder);
  const exit = await child.exited;
  if (exit !== 0) throw new Error(`wrangler ended with ${exit}\n${child.lines.join("\n")}`);
  return gzipSync(readFileSync(join(out, "main.js"))).length;
}

mkdirSync(join(ROOT, ".state"), { recursive: true });
const folder = mkdtempSync(join(ROOT, ".state", "bundle-sizes-"));
try {
  for (const name of ["src", "wrangler.evm.toml", "package.json"]) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const measure = async (): Promise<number[]> => [await gzippedSize(folder, false), await gzippedSize(folder, true)];
  const whole = await measure();
  for (const [name, text] of Object.entries(WITHOUT_GATE)) writeFileSync(join(folder, "src", "coordinator", "payment", name), `${text}\n`);
  const open = await measure();
  const rows = { coordinator: whole, "without payments": open, payments: whole.map((size, at) => size - (open[at] ?? 0)) };
  console.log("KB, gzipped".padEnd(20), "as it is".padStart(10), "minified".padStart(10));
  for (const [name, sizes] of Object.entries(rows)) console.log(name.padEnd(20), ...sizes.map((size) => (size / 1000).toFixed(1).padStart(10)));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
