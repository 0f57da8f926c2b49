// The examples that need a wallet or the AI SDK, as their first lines say, on real local chains. The others run in test/e2e/examples.test.ts.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { shareCoordinator } from "../../support/coordinator.ts";
import { bundleExample } from "../../support/example.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import type { FullLab } from "../start-lab.ts";
import { PRICE } from "../support/bench.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

const MODULES = [join(import.meta.dirname, "..", "node_modules")];

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

/** Runs an example and returns what it prints. */
async function example(file: string, env: Record<string, string>): Promise<string> {
  const bundle = await bundleExample(file, "node", MODULES);
  const { stdout } = await promisify(execFile)(process.execPath, [bundle], { env: { PATH: process.env["PATH"], ...env } });
  return stdout;
}

describe.each([
  ["evm", "pay-with-viem.mjs", /^neutral for \$0\.010, settled by 0x[0-9a-f]{64}\nspent in all: \$0\.010\n$/],
  ["svm", "pay-on-solana.mjs", /^neutral for \$0\.010, settled by [1-9A-Za-z]{60,}\nspent in all: \$0\.010\n$/],
] as const)("on the %s", (side, file, printed) => {
  it(`[PY1] [PY4] examples/${file} pays exactly the price, and prints the settlement and what was spent`, async () => {
    const bench = await sharedBench(side);
    try {
      await bench.join();
      const secret = lab.description.payers[side]?.[bench.payer()]?.secret ?? "";
      const keys = side === "evm" ? { EVM_PRIVATE_KEY: secret, EVM_USDC: lab.evm.token } : { SVM_PRIVATE_KEY: secret, SVM_RPC_URL: lab.svm.rpcUrl };
      const gained = await bench.earning(async () => {
        expect(await example(file, { ROUTER_BASE_URL: bench.url, ...keys })).toMatch(printed);
      });
      expect(gained).toBe(PRICE.fast);
    } finally {
      await giveBack(bench);
    }
  });
});

it("[API9] examples/ai-sdk.mjs: the AI SDK answers, streams and shows the receipt", async () => {
  const coordinator = await shareCoordinator("evm");
  const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
  await worker.connect();
  worker.serve();
  try {
    const printed = await example("ai-sdk.mjs", { ROUTER_BASE_URL: coordinator.url });
    expect(printed).toMatch(new RegExp(`^an answer\njob [0-9a-f-]{36}, receipt of ${worker.publicKey}, \\S+ tokens\nan answer\njob [0-9a-f-]{36}\n$`));
  } finally {
    worker.close();
  }
});
