import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { longFirst } from "../support/long-first.ts";

const SUITE = process.env.SUITE ?? "lab";
const SUITES: Record<string, string> = {
  lab: "{clients,payments,faults,reasons,token,svm,process,stake/*}.test.ts",
  paid: "{start,router/*,sdk/*}.test.ts",
  stake: "stake/*.test.ts",
  probe: "probe/*.test.ts",
};

/** The files that take longest, by their time. The first one waits: a coordinator that was killed asks again about some payments only after 25 s [PY8]. */
const LONG = [
  ...["router/kills", "router/quickstart", "router/doubts", "sdk/mcp", "router/chain", "sdk/paying", "router/wire", "router/paid", "start"],
  ...["router/money", "sdk/examples"],
].map((name) => `test/payment/${name}.test.ts`);

/** Real chains and a real facilitator. From the repository: npx vitest run --config test/payment/vitest.config.ts */
export default defineConfig({
  root: import.meta.dirname,
  test: {
    name: "payment",
    // x402's SVM scheme logs each failure that it reports.
    silent: "passed-only",
    reporters: process.env.CI
      ? ["default", ["json", { outputFile: join(import.meta.dirname, "..", "..", ".state", `test-results-${SUITE}.json`) }]]
      : ["default"],
    // What is tested is asked for: the lab itself with stakes on its chains (npm test; npm run stake has the latter alone), the router over it (npm run
    // paid), and what takes minutes, the rules' own times and more faults and kills (npm run probe).
    include: [SUITES[SUITE] ?? "none"],
    // Most coordinators run from one bundle; those of start:paid start in half the time when Node finds wrangler compiled.
    globalSetup: ["../support/bundle.ts"],
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, "..", "..", "node_modules", ".cache", "compiled") },
    // Above the 45 s of `until`, which says what it saw.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Files share a process, because each would load viem, litesvm and the x402 clients again. Half of their time is waiting for chains and processes.
    isolate: false,
    maxWorkers: 4,
    sequence: { sequencer: longFirst(LONG) },
  },
});
