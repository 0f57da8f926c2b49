import { defineConfig } from "vitest/config";

/** Real chains and a real facilitator. From the repository: npx vitest run --config test/payment/vitest.config.ts */
export default defineConfig({
  root: import.meta.dirname,
  test: {
    name: "payment",
    // x402's SVM scheme logs each failure that it reports.
    silent: "passed-only",
    // The black-box probe takes six minutes, so it is asked for: npm run probe.
    include: [process.env.PROBE === undefined ? "{*,router/*,sdk/*}.test.ts" : "probe/*.test.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    maxWorkers: 2,
  },
});
