// The memory of a coordinator: what belonged to a request that has ended goes soon. workerd keeps it outside of V8's heap, so V8 counts none of it.
import { Agent, get } from "node:http";
import { describe, expect, it } from "vitest";
import { freePort } from "../../scripts/coordinator-process.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { runtimeMemory } from "../support/process-tree.ts";

const REQUESTS = 6_000;
const LANES = 32;
const MIB = 2 ** 20;

describe("the memory of a coordinator", () => {
  it("[LM1] 6,000 answers of 100 kB leave less than 180 MiB", async () => {
    const coordinator = await startBundled({
      instance: "evm",
      port: await freePort(),
      stateDir: temporaryFolder("garbage"),
      settings: { TESTNET_MODE: "true" },
    });
    finallyDo(() => coordinator.stop());
    const document = `${coordinator.url}/openapi.json`;
    const agent = new Agent({ keepAlive: true, maxSockets: LANES });
    finallyDo(() => agent.destroy());
    // Not by fetch, which would cost this process more CPU than workerd needs for the answers.
    const ask = async (): Promise<void> =>
      await new Promise<void>((resolve, reject) => {
        let received = 0;
        get(document, { agent }, (answer) => {
          answer.on("data", (part: Buffer) => (received += part.length));
          answer.on("error", reject);
          answer.on("end", () => (received === length ? resolve() : reject(new Error(`${received} bytes of ${length}`))));
        }).on("error", reject);
      });
    const first = await fetch(document);
    const { length } = await first.bytes();
    expect(first.headers.get("Content-Length")).toBe(String(length));
    const head = await fetch(document, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
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
    expect((REQUESTS * length) / MIB).toBeGreaterThan(520);
    expect(most - before).toBeGreaterThan(0);
    expect(most - before).toBeLessThan(180);
  });
});
