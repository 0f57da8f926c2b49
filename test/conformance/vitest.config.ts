import { BaseSequencer, type TestSpecification } from "vitest/node";
import { defineConfig } from "vitest/config";

/** The files that wait for real times of the protocol start first. */
class SlowFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = (file: TestSpecification): number => (file.moduleId.includes("/slow/") ? 0 : 1);
    return Promise.resolve(files.toSorted((a, b) => rank(a) - rank(b) || a.moduleId.localeCompare(b.moduleId)));
  }
}

/** Black-box: real processes, HTTP and WebSockets. From the repository: npx vitest run --root . --config test/conformance/vitest.config.ts */
export default defineConfig({
  test: {
    name: "conformance",
    include: ["test/conformance/**/*.test.ts"],
    globalSetup: ["test/conformance/support/snapshot.ts"],
    server: { deps: { external: [/conformance-snapshot-/] } },
    testTimeout: 30_000,
    hookTimeout: 90_000,
    teardownTimeout: 20_000,
    maxWorkers: 5,
    maxConcurrency: 40,
    sequence: { sequencer: SlowFirst },
  },
});
