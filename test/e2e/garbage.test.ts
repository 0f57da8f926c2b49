// The memory of a coordinator: what belonged to a request that has ended goes soon. workerd keeps it outside of V8's heap, so V8 counts none of it.
import { describe, expect, it } from "vitest";
import { freePort } from "../../scripts/coordinator-process.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { runtimeMemory } from "../support/process-tree.ts";

const REQUESTS = 1_500;
const LANES = 8;
const MIB = 2 ** 20;

describe("the memory of a coordinator", () => {
  it("[LM1] 1,500 answers of 100 kB leave less than 100 MiB", async () => {
    const coordinator = await startBundled({
      instance: "evm",
      port: await freePort(),
      stateDir: temporaryFolder("garbage"),
      settings: { TESTNET_MODE: "true" },
    });
    finallyDo(() => coordinator.stop());
    const ask = async () => (await fetch(`${coordinator.url}/openapi.json`)).text();
    const { length } = await ask();
    const before = runtimeMemory(coordinator.pid);
    let most = before;
    let left = REQUESTS;
    await Promise.all(
      Array.from({ length: LANES }, async () => {
        while (left-- > 0) {
          await ask();
          if (left % 100 === 0) most = Math.max(most, runtimeMemory(coordinator.pid));
        }
      }),
    );
    expect((REQUESTS * length) / MIB).toBeGreaterThan(130);
    expect(most - before).toBeGreaterThan(0);
    expect(most - before).toBeLessThan(100);
  });
});
