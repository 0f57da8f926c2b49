import { join } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { defineConfig } from "vitest/config";

/** The files that take longest, by their time, besides those that wait for real times of the protocol. */
const LONG = [
  ...["instances/streams", "attacks/storage", "jobs/lifecycle", "jobs/reconnect", "attacks/shares", "instances/rates", "attacks/payment-gate"],
  ...["socket/register", "jobs/matching", "receipts/strict"],
].map((name) => `/${name}.test.ts`);

/** The files that take longest start first, so that the last ones are short. */
class SlowFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = LONG.findIndex((name) => moduleId.endsWith(name));
      return moduleId.includes("/slow/") ? -1 : place === -1 ? LONG.length : place;
    };
    return Promise.resolve(files.toSorted((a, b) => rank(a) - rank(b) || a.moduleId.localeCompare(b.moduleId)));
  }
}

/** Wait for half a minute or more and do nothing meanwhile: beside other work, such a process and its coordinator need 1 % of a core. */
const MINUTES = ["minutes", "pairing", "models"].map((name) => `test/conformance/slow/${name}.test.ts`);

/** Gives one coordinator all the work that a machine can send it, and measures how it serves others meanwhile: it runs alone. */
const FLOODS = ["test/conformance/attacks/floods.test.ts"];

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
    sequence: { sequencer: SlowFirst },
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
