import { availableParallelism } from "node:os";
import { join } from "node:path";
import { buildPages } from "./scripts/build-pages.ts";
import { defineConfig, type TestProjectConfiguration } from "vitest/config";
import { longFirst } from "./test/support/long-first.ts";

/** The address of a facilitator that does not exist: the port of the discard protocol. */
const NO_FACILITATOR = "http://127.0.0.1:9";

// The tests start about a hundred Node processes, mostly coordinators or our own command. With a compile cache they cost half as much CPU. It is set only for
// the children of the test workers: the workers themselves load a copy of the core per planted bug, which is not worth caching.
const env = { NODE_COMPILE_CACHE: join(import.meta.dirname, "node_modules", ".cache", "compiled") };

/**
 * Guards against what never ends, no bounds on a time: the longest tests take 15 s of an idle machine, and one that is busy with other things can need ten times
 * as long.
 */
const GUARDS = { testTimeout: 180_000, hookTimeout: 180_000 };

/**
 * Files of a project share a process per core, which costs each of them a second of CPU less. Everything but the tests themselves runs as Node runs it: no
 * time for a transform, and none in the calls between modules.
 */
const SHARED = {
  isolate: false,
  server: { deps: { external: [/\/src\//, /\/scripts\//, /\/test\/.*(?<!\.test|\/after-file)\.ts$/] } },
};

/** The files that take longest, by their time. */
const LONG = [
  ...["unit/tasks/engine", "unit/scripts/front-channel", "simulation/simulation", "unit/worker/worker-process", "simulation/planted-bugs", "unit/cli/wait"],
  ...["unit/scripts/front-socket", "unit/worker/worker-llm", "unit/tasks/cut-json", "unit/worker/connect-reason", "unit/sdk/map", "unit/sdk/retry"],
  ...["unit/cli/mcp-tools", "simulation/abuse", "unit/worker/failed-writes", "unit/scripts/front", "unit/cli/worker-setup", "unit/cli/pairing"],
  ...["unit/cli/terminal", "unit/worker/worker-trouble", "unit/sdk/payment", "unit/cli/payments", "unit/sdk/cancel", "unit/runtimes/embedded-install"],
  ...["edge/rest/again", "edge/rest/database", "edge/hub/outbox", "edge/hub/socket-gate", "edge/hub/events", "edge/hub/clock", "edge/hub/chain"],
  ...["edge/hub/faults", "edge/hub/ledger", "edge/rest/schema", "edge/hub/damage", "edge/hub/storage", "edge/rest/trust"],
  ...["browser/storage", "browser/pair", "browser/worker", "browser/home", "browser/docs", "browser/accessibility", "browser/pair-page", "browser/update"],
  ...["e2e/dev", "e2e/serve", "e2e/start", "e2e/stake-cli", "e2e/wrangler", "e2e/mcp", "e2e/standby", "e2e/front", "e2e/garbage", "e2e/python-worker"],
  ...["llm/embedded", "llm/server", "e2e/worker-commands", "e2e/crash", "llm/worker-embedded", "e2e/clock", "e2e/examples"],
].map((name) => `test/${name}.test.ts`);

// The wrangler files bind the built pages.
buildPages();

/**
 * The edge project: tests in workerd, with the bindings of the wrangler file of evm, in testnet mode. A test may override any variable. The instances differ
 * in the network id, in which workers sign, and in payment scheme and token: test/edge/rest/payment.test.ts tries these on both. Everything else is the same
 * code with the same settings. What a worker or a user sees of the network id on the svm instance is in test/conformance/instances/svm.test.ts.
 */
async function edge(): Promise<TestProjectConfiguration> {
  // The pool takes a second to load, which a run of other projects can do without.
  const { cloudflareTest, readD1Migrations } = await import("@cloudflare/vitest-pool-workers");
  const migrations = await readD1Migrations("migrations");
  return {
    plugins: [
      cloudflareTest({
        main: "./test/edge/main.ts",
        wrangler: { configPath: "./wrangler.evm.toml" },
        // No test calls the internet: these addresses refuse the connection at once.
        miniflare: { bindings: { TESTNET_MODE: "true", EVM_FACILITATOR: NO_FACILITATOR, SVM_FACILITATOR: NO_FACILITATOR, TEST_MIGRATIONS: migrations } },
      }),
    ],
    test: {
      name: "edge-evm",
      include: ["test/edge/**/*.test.ts"],
      setupFiles: ["test/edge/setup.ts"],
      ...GUARDS,
      // Runtimes, each for many files, because the start of one costs 4 s of CPU. setup.ts and withSettings undo what a file changes. The tests wait much of
      // their time: three runtimes keep two cores busy.
      isolate: false,
      maxWorkers: 3,
      // Bundled once: module by module these four are 250 requests of each runtime, and a third of its start.
      deps: { optimizer: { ssr: { enabled: true, include: ["drizzle-orm", "drizzle-orm/d1", "drizzle-orm/sqlite-core", "hono", "zod"] } } },
      sequence: { groupOrder: 1 },
    },
  };
}

/** The projects that the command line names; without any, all run. */
const named = process.argv.flatMap((arg, at, args) =>
  arg === "--project" ? [args[at + 1] ?? ""] : arg.startsWith("--project=") ? [arg.slice("--project=".length)] : [],
);
const RUNS_EDGE = named.length === 0 || named.some((name) => /^edge|[!*]/.test(name));

export default defineConfig({
  test: {
    // Passing tests provoke errors on purpose: their log lines are not shown.
    silent: "passed-only",
    // By default vitest would leave one of two cores idle.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    teardownTimeout: 20_000,
    sequence: { sequencer: longFirst(LONG) },
    reporters: process.env.CI ? ["default", ["json", { outputFile: `.state/test-results${process.env.TEST_PART ?? ""}.json` }]] : ["default"],
    projects: [
      {
        test: {
          name: "unit",
          env,
          include: ["test/unit/**/*.test.ts", "test/simulation/**/*.test.ts", "test/vectors/**/*.test.ts"],
          // What a module of ours remembers it remembers by address or object.
          ...SHARED,
          setupFiles: ["test/support/property-seed.ts", "test/support/after-file.ts"],
          ...GUARDS,
          // Many files wait for processes that they started.
          maxWorkers: 4,
          sequence: { groupOrder: 0 },
        },
      },
      ...(RUNS_EDGE ? [await edge()] : []),
      {
        // A real Chromium against a real coordinator; skipped, and said so, where there is none.
        test: {
          name: "browser",
          env,
          include: ["test/browser/**/*.test.ts"],
          ...SHARED,
          setupFiles: ["test/support/after-file.ts"],
          globalSetup: ["test/support/bundle.ts"],
          ...GUARDS,
          expect: { poll: { timeout: 45_000 } },
          maxWorkers: 3,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // Real processes on real ports. No test here measures a time, and most of them wait for a process to start: three files at once keep two cores busy.
        test: {
          name: "e2e",
          env,
          include: ["test/llm/**/*.test.ts", "test/e2e/**/*.test.ts"],
          ...SHARED,
          setupFiles: ["test/support/after-file.ts"],
          globalSetup: ["test/support/installed.ts", "test/support/bundle.ts"],
          ...GUARDS,
          maxWorkers: 3,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
