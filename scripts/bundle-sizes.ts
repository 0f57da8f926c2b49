// npm run bundle:sizes: the size of the coordinator's bundle, and how much of it is for payments. It bundles the sources twice, the second time with a payment
// gate that is always open, so that the bundler leaves out the code for payments. A third time it adds the package @x402/extensions.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { ROOT, startWrangler } from "./coordinator-process.ts";

/**
 * Replacements for the modules of the coordinator that import the rest of payments. Each exports the names that other modules import from it; a test compares
 * them.
 */
export const WITHOUT_GATE: Readonly<Record<string, string>> = {
  "routes/paid-commit.ts": `export const paymentGate = () => (_c, next) => next();
export const commitRate = (_c, next) => next();
export const paymentKey = () => null;
export const paidCommit = () => { throw new Error('no payments'); };
export const keyInPayment = () => null;`,
  "payment/facilitator.ts": `export const settlePayment = () => { throw new Error('no payments'); };
export const feePayers = async () => null;`,
  "payment/chain-evm.ts": "export class EvmChain {}",
  "payment/chain-svm.ts": "export class SvmChain {}",
};

/** Bundles the sources in `folder` as a deployment does and returns the gzipped size in bytes. @throws when it does not bundle */
async function gzippedSize(folder: string, minify: boolean): Promise<number> {
  const out = join(folder, "out");
  const options = ["--dry-run", "-c", join(folder, "wrangler.evm.toml"), "--outdir", out, ...(minify ? ["--minify"] : [])];
  const child = startWrangler(["deploy", ...options], folder);
  const exit = await child.exited;
  if (exit !== 0) throw new Error(`wrangler ended with ${exit}\n${child.lines.join("\n")}`);
  return gzipSync(readFileSync(join(out, "main.js"))).length;
}

/** Bundles the coordinator in each form and prints the sizes. */
async function printSizes(): Promise<void> {
  mkdirSync(join(ROOT, ".state"), { recursive: true });
  const folder = mkdtempSync(join(ROOT, ".state", "bundle-sizes-"));
  try {
    for (const name of ["src", "wrangler.evm.toml", "package.json"]) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    // The pages are no part of the bundle, but wrangler wants their folder.
    mkdirSync(join(folder, "dist", "pages"), { recursive: true });
    const measure = async (): Promise<number[]> => [await gzippedSize(folder, false), await gzippedSize(folder, true)];
    const whole = await measure();
    const main = join(folder, "src", "coordinator", "main.ts");
    const source = readFileSync(main, "utf8");
    const use = 'import { declareDiscoveryExtension } from "@x402/extensions/bazaar";\nconsole.log(declareDiscoveryExtension);';
    writeFileSync(main, `${use}\n${source}`);
    const withExtensions = await measure();
    writeFileSync(main, source);
    for (const [name, text] of Object.entries(WITHOUT_GATE)) {
      const path = join(folder, "src", "coordinator", name);
      // A module that was moved must not go on counting as payment code.
      if (!existsSync(path)) throw new Error(`there is no src/coordinator/${name}`);
      writeFileSync(path, `${text}\n`);
    }
    const open = await measure();
    const rows = { coordinator: whole, "without payments": open, payments: whole.map((size, at) => size - (open[at] ?? 0)), "with extensions": withExtensions };
    console.log("KB, gzipped".padEnd(20), "as it is".padStart(10), "minified".padStart(10));
    for (const [name, sizes] of Object.entries(rows)) console.log(name.padEnd(20), ...sizes.map((size) => (size / 1000).toFixed(1).padStart(10)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) await printSizes();
