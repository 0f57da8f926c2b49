import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { longFirst } from "../support/long-first.ts";

/** The path of a file of these tests. */
const fileOf = (name: string): string => `test/conformance/${name}.test.ts`;

/** Wait for half a minute or more and do nothing meanwhile: beside other work, such a process and its coordinator need 1 % of a core. */
const MINUTES = ["slow/minutes", "slow/pairing", "slow/models"].map(fileOf);

/** The files that take longest: those that wait for real times of the protocol, and then by their time. */
const LONG = [
  ...[...MINUTES, "test/conformance/slow/"],
  ...["instances/streams", "attacks/storage", "jobs/lifecycle", "jobs/reconnect", "attacks/shares", "instances/rates", "attacks/payment-gate"].map(fileOf),
  ...["socket/register", "jobs/matching", "receipts/strict"].map(fileOf),
];

/** Gives one coordinator all the work that a machine can send it, and measures how it serves others meanwhile: it runs alone. */
const FLOODS = [fileOf("attacks/floods")];

/** Black-box: real processes, HTTP and WebSockets. From the repository: npx vitest run --root . --config test/conformance/vitest.config.ts */
export default defineConfig({
  test: {
    globalSetup: ["test/support/bundle.ts"],
    setupFiles: ["test/conformance/support/setup.ts"],
    isolate: false,
    // The launcher of a coordinator starts in less time when Node finds Miniflare compiled.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, "..", "..", "node_modules", ".cache", "compiled") },
    testTimeout: 30_000,
    hookTimeout: 90_000,
    teardownTimeout: 20_000,
    maxConcurrency: 40,
    sequence: { sequencer: longFirst(LONG) },
    projects: [
      {
        extends: true,
        test: { name: "conformance", include: ["test/conformance/**/*.test.ts"], exclude: [...MINUTES, ...FLOODS], maxWorkers: 6, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: { name: "minutes", include: MINUTES, maxWorkers: 6, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: { name: "floods", include: FLOODS, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
});
