// What the SDK's cancel, and an abort, do to real money: docs/sdk.md, "Cancelling" [JB13].
import { beforeAll, describe, expect, it } from "vitest";
import { ComputeRouter } from "../../../src/sdk/index.ts";
import { payWithEvm } from "../../../src/sdk/pay/evm.ts";
import { payWithSvm } from "../../../src/sdk/pay/svm.ts";
import { until } from "../../support/until.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, PRICE } from "../support/bench.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("a paid job on the %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    return () => giveBack(bench);
  });

  function client(who: number): ComputeRouter {
    const payment =
      side === "svm"
        ? payWithSvm(lab.svm.payers[who]!, { rpcUrl: lab.svm.rpcUrl })
        : payWithEvm(lab.evm.payers[who]!, { tokens: [{ network: lab.evm.network, asset: lab.evm.token }] });
    return new ComputeRouter({ baseUrl: bench.url, payment, maxPrice: "$0.01", pollInterval: 50 });
  }

  it("[JB13, PY7] that waits for a worker is cancelled, and nothing is charged, even when a worker comes", async () => {
    const router = client(bench.payer());
    const gained = await bench.earning(async () => {
      const { cancelled, job, charged, credit } = await router.cancel(await router.submit(CLASSIFY));
      expect({ cancelled, error: job.result?.["error"], charged, credit }).toEqual({ cancelled: true, error: "cancelled", charged: null, credit: null });
      const worker = await bench.join();
      await client(bench.payer()).run(CLASSIFY, { policy: "CHEAP" });
      expect(worker.frames.filter(({ job_id }) => job_id === job.id)).toEqual([]);
    });
    // Only the other payer's job.
    expect(gained).toBe(PRICE.cheap);
    expect(router.usage()).toMatchObject({ failed: 1, spent: "$0.000" });
    await bench.leave();
  });

  it("[JB13] that its worker has started is charged, by cancel and by an abort", async () => {
    const worker = await bench.join(1, false);
    const router = client(bench.payer());
    const gained = await bench.earning(async () => {
      const handle = await router.submit(CLASSIFY, { policy: "FAST" });
      await until("the job to run", async () => ((await router.get(handle.jobId)).status === "running" ? true : undefined));
      expect(await router.cancel(handle)).toMatchObject({ cancelled: true, charged: true, credit: null });
      expect(router.usage()).toMatchObject({ failed: 1, spent: "$0.010", unclear: 0 });

      const abort = new AbortController();
      const run = router.run(CLASSIFY, {
        policy: "FAST",
        signal: abort.signal,
        onUpdate: ({ status }) => status === "running" && abort.abort(new Error("enough")),
      });
      await expect(run).rejects.toThrow("enough");
      await until("the worker to hear of it", () => (worker.frames.filter(({ type }) => type === "job_cancel").length === 2 ? true : undefined));
    });
    expect(gained).toBe(2n * PRICE.fast);
    expect(router.usage()).toMatchObject({ failed: 1, spent: "$0.010", unclear: 1 });
    await bench.leave();
  });
});
