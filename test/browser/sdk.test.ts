// What differs for the SDK between a browser and Node. The unit tests of src/sdk see everything else.
import { build } from "esbuild";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import type { ComputeRouter, LocalJob } from "../../src/sdk/index.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { ended } from "../support/rest.ts";
import { CHROMIUM, BARE, launchChromium, newProfile, WITHOUT } from "./chromium.ts";

type Sdk = { ComputeRouter: typeof ComputeRouter };

let coordinator: CoordinatorHere;
let bundle: string;

async function bundledSdk(): Promise<string> {
  const options = { bundle: true, write: false, format: "iife", globalName: "sdk", platform: "browser", target: "es2022", logLevel: "silent" } as const;
  const { outputFiles } = await build({ entryPoints: [join(ROOT, "src", "sdk", "index.ts")], ...options });
  return outputFiles[0]?.text ?? "";
}

describe.skipIf(CHROMIUM === undefined)(`the SDK, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [coordinator, bundle] = await Promise.all([shareCoordinator("evm"), bundledSdk()]);
  });

  it("[JB13] a time-out as the signal of run, submit and stream cancels their jobs", async () => {
    const context = await newProfile(await launchChromium(), BARE);
    onTestFinished(() => context.close());
    const page = await context.newPage();
    // A local coordinator answers only to pages of this machine.
    const here = `${coordinator.url}/page-of-the-test`;
    await page.route(here, (route) => route.fulfill({ contentType: "text/html", body: `<script>${bundle}</script>` }));
    await page.goto(here);
    // No worker is connected, so each job waits for 30 s. The time-out comes in between: long after the commit, also on a busy machine.
    const ends = await page.evaluate(async (baseUrl) => {
      const { ComputeRouter: Client } = (globalThis as unknown as { sdk: Sdk }).sdk;
      const job = { job_type: "TASK", task_type: "classify", input: "good" } as const;
      const end = async (call: (router: ComputeRouter, signal: AbortSignal) => Promise<unknown>, kept?: Promise<void>) => {
        const jobs: LocalJob[] = [];
        const router = new Client({ baseUrl, timeout: 60_000, jobList: { add: (added) => (jobs.push(added), kept), all: () => jobs } });
        const reason = await call(router, AbortSignal.timeout(5_000)).catch((error: unknown) => error);
        return { reason: reason instanceof Error && reason.name, jobId: jobs[0]?.jobId };
      };
      return Promise.all([
        end((router, signal) => router.run(job, { signal })),
        // A list of jobs that does not answer keeps the submit open.
        end((router, signal) => router.submit(job, { signal }), new Promise(() => {})),
        end((router, signal) => router.stream(job, { signal }).result),
        end(async (router, signal) => {
          const stream = router.stream(job, { signal });
          for await (const event of stream) if (event.type === "job") break;
          return stream.result;
        }),
      ]);
    }, coordinator.url);
    expect(ends).toEqual(ends.map(() => ({ reason: "TimeoutError", jobId: expect.any(String) })));
    const jobs = await Promise.all(ends.map(({ jobId }) => ended(coordinator.url, String(jobId))));
    expect(jobs.map(({ result }) => result?.["error"])).toEqual(jobs.map(() => "cancelled"));
  });
});
