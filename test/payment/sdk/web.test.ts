import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { freePort, startWrangler } from "../../../scripts/coordinator-process.ts";

import { until } from "../../support/until.ts";
import type { FullLab } from "../start-lab.ts";
import type { Bench } from "../support/bench.ts";
import { bundleForBrowsers } from "../support/browser-bundle.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";
import type { Errand, Errands } from "./web-payer.ts";

let lab: FullLab;
let page: string;
beforeAll(async () => {
  lab = await sharedLab();
  const state = mkdtempSync(join(tmpdir(), "compute-router-web-"));
  const port = await freePort();
  page = `http://127.0.0.1:${port}`;
  const bundle = join(state, "page", "bundle.js");
  await bundleForBrowsers(join(import.meta.dirname, "web-payer.ts"), bundle);
  // As it was bundled, without the flag for Node's modules, and of a date before Workers had any of Node's globals by themselves.
  const place = ["--ip", "127.0.0.1", "--port", String(port), "--inspector-port", "0", "--show-interactive-dev-session=false"];
  const child = startWrangler(["dev", bundle, "--no-bundle", "--compatibility-date", "2024-09-01", ...place], state);
  const isReady = async () => ((await fetch(page, { signal: AbortSignal.timeout(2_000) }).catch(() => null))?.status === 200 ? true : undefined);
  await until("worker with the SDK", isReady, () => child.lines.join("\n"));
  return async () => {
    await child.stop();
    rmSync(state, { recursive: true, force: true });
  };
});

describe.each(["evm", "svm"] as const)("the SDK outside of Node pays on the %s", (instance) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(instance);
    await bench.join();
    return () => giveBack(bench);
  });

  async function send(errand: Partial<Errand> = {}): Promise<Errands> {
    const { network, token: asset } = lab[instance];
    const secret = lab.description.payers[instance]?.[bench.payer()]?.secret ?? "";
    const body = JSON.stringify({ instance, url: bench.url, secret, network, asset, rpcUrl: lab.svm.rpcUrl, maxPrice: "$0.01", ...errand });
    return JSON.parse(await (await fetch(page, { method: "POST", body })).text());
  }

  it("[PY1] [PY4] 402, paid, completed, receipt verified, exactly the price moved, and nothing of Node was there", async () => {
    const gained = await bench.earning(async () => {
      const result = { status: "completed", verified: true, price: "$0.010", receipt: { payment_ref: expect.any(String) } };
      expect(await send()).toMatchObject({ result, error: null, node: [] });
    });
    expect(gained).toBe(10_000n);
  });

  it("[PY5] a lower limit than the price signs nothing", async () => {
    const gained = await bench.earning(async () =>
      expect(await send({ maxPrice: "$0.009" })).toMatchObject({ error: expect.stringContaining("PaymentLimitError") }),
    );
    expect(gained).toBe(0n);
  });
});
