import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { buildPages } from "./scripts/build-pages.ts";
import { defineConfig, type TestProjectConfiguration } from "vitest/config";

/** A facilitator that is not there: the port of the discard protocol. */
const NOBODY = "http://127.0.0.1:9";

// The tests start some hundred Node processes, most of them wrangler or our own command: kept compiled they cost half as much CPU.
// Set for the children of the test workers only: these load each planted bug's own copy of the core, of which nothing is worth keeping.
const env = { NODE_COMPILE_CACHE: join(import.meta.dirname, "node_modules", ".cache", "compiled") };

// The edge projects bind them as the wrangler files say.
buildPages();
const migrations = await readD1Migrations("migrations");

/**
 * What an instance differs in: its network id, which workers sign, and its payment scheme and token. Everything else is the same code with the
 * same settings, so the other edge tests run on one instance.
 */
const DIFFERS = [
  ...["doorkeeper", "ledger", "required", "socket"].map((name) => `test/edge/hub/${name}.test.ts`),
  ...["commit", "docs", "home-page", "payment", "quote", "trust"].map((name) => `test/edge/rest/${name}.test.ts`),
  "test/edge/stake/**/*.test.ts",
];

/** In workerd, with the bindings of the instance's own wrangler file, in testnet mode; a test may override any variable. */
function edge(instance: "evm" | "svm"): TestProjectConfiguration {
  return {
    plugins: [
      cloudflareTest({
        main: "./test/edge/main.ts",
        wrangler: { configPath: `./wrangler.${instance}.toml` },
        // No test asks the internet for anything: whoever is not there refuses at once.
        miniflare: { bindings: { TESTNET_MODE: "true", EVM_FACILITATOR: NOBODY, SVM_FACILITATOR: NOBODY, TEST_MIGRATIONS: migrations } },
      }),
    ],
    test: {
      name: `edge-${instance}`,
      include: instance === "evm" ? ["test/edge/**/*.test.ts"] : DIFFERS,
      setupFiles: ["test/edge/setup.ts"],
      testTimeout: 20_000,
      hookTimeout: 30_000,
      // A runtime per core and not per file: its start costs 6 s of CPU. What a file changes, setup.ts and withSettings put back.
      isolate: false,
      sequence: { groupOrder: 1 },
    },
  };
}

export default defineConfig({
  test: {
    // What passing tests provoke on purpose is no news.
    silent: "passed-only",
    // vitest would leave a core idle, of two.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    teardownTimeout: 20_000,
    reporters: process.env.CI ? ["default", ["json", { outputFile: ".state/test-results.json" }]] : ["default"],
    projects: [
      {
        test: {
          name: "unit",
          env,
          include: ["test/unit/**/*.test.ts", "test/simulation/**/*.test.ts", "test/vectors/**/*.test.ts"],
          testTimeout: 20_000,
          hookTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      edge("evm"),
      edge("svm"),
      {
        // Real processes on real ports: one file at a time, so that a measured time is the product's and not the machine's.
        test: {
          name: "e2e",
          env,
          include: ["test/llm/**/*.test.ts", "test/e2e/**/*.test.ts"],
          globalSetup: ["test/support/installed.ts"],
          testTimeout: 60_000,
          hookTimeout: 90_000,
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // A real Chromium against a real coordinator; skipped, and said so, where there is none.
        test: {
          name: "browser",
          env,
          include: ["test/browser/**/*.test.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
