/**
 * Prints what a decoder of Solana transactions costs the coordinator, ours beside the codecs of @solana/kit: bytes of the bundle, minified and gzipped, and
 * the time to read one payment. These are the figures of docs/decisions/0009-kept-libraries.md. Kit's codecs check less: test/unit/payment/
 * svm-transaction.test.ts has the rules that they leave out.
 */
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from "@solana/kit";
import { buildSync } from "esbuild";
import { readTransaction } from "../src/coordinator/chain/svm-transaction.ts";
import { TRANSACTION } from "../test/support/payments.ts";
import { ROOT } from "./coordinator-process.ts";

const OURS = 'export { readTransaction } from "./src/coordinator/chain/svm-transaction.ts"';
const KIT = 'export { getCompiledTransactionMessageDecoder, getTransactionDecoder } from "@solana/kit"';
const READINGS = 10_000;

function gzippedSize(contents: string): number {
  const { outputFiles } = buildSync({
    stdin: { contents, resolveDir: join(ROOT) },
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    platform: "browser",
  });
  return gzipSync(outputFiles[0]?.contents ?? "").length;
}

function microseconds(read: () => unknown): number {
  for (let i = 0; i < READINGS; i++) read();
  const began = performance.now();
  for (let i = 0; i < READINGS; i++) read();
  return ((performance.now() - began) * 1_000) / READINGS;
}

const bytes = new Uint8Array(Buffer.from(TRANSACTION, "base64"));
const transactions = getTransactionDecoder();
const messages = getCompiledTransactionMessageDecoder();
const rows: [name: string, entry: string, read: () => unknown][] = [
  ["ours, with all checks", OURS, () => readTransaction(bytes)],
  ["@solana/kit, decoding only", KIT, () => messages.decode(transactions.decode(bytes).messageBytes)],
];
for (const [name, entry, read] of rows) {
  console.log(name.padEnd(28), `${(gzippedSize(entry) / 1_000).toFixed(1)} kB`.padStart(8), `${microseconds(read).toFixed(0)} µs`.padStart(8));
}
