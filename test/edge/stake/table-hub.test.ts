import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { TestHub, withSettings } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";
import type { KeyPair } from "../../../src/receipt/index.ts";

withSettings({ STAKE_SOURCE: "table" });

async function stake({ publicKey }: KeyPair, amount: number): Promise<KeyPair> {
  const sql = "INSERT INTO stakes (provider_pubkey, amount, updated_at) VALUES (?, ?, 0) ON CONFLICT (provider_pubkey) DO UPDATE SET amount = excluded.amount";
  await env.DB.prepare(sql).bind(publicKey, amount).run();
  return { publicKey, secret: new Uint8Array() };
}

async function staked(amount: number): Promise<KeyPair> {
  const key = newKey();
  await stake(key, amount);
  return key;
}

afterEach(() => vi.restoreAllMocks());

describe("STAKE_SOURCE=table", () => {
  test("[ST2] a tier is read again every 5 min: a higher one gets FAST jobs at once, a lower one gets none", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit("fast");
    await hub.pass(1);
    await worker.quiet();
    await stake(worker.key, 100);
    for (let tick = 0; tick < 14; tick++) {
      hub.skip(2_000);
      await worker.quiet();
      await hub.pass(0);
    }
    await worker.quiet();
    expect((await hub.job(id)).status).toBe("pending");
    hub.skip(271_999);
    await worker.quiet();
    await hub.pass(0);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Verified" });
    const second = await hub.commit("fast");
    expect((await worker.assigned()).job_id).toBe(second);
    await worker.complete({ job_id: second, attempt: 1 });
    await stake(worker.key, 99);
    hub.skip(300_000);
    await worker.quiet();
    await hub.pass(0);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Open" });
    expect((await worker.register()).tier).toBe("Open");
    await hub.commit("fast");
    await worker.quiet();
  });

  test("[ST2] a tier survives the loss of the hub's memory", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ key: await staked(100) });
    await hub.evict();
    await hub.commit("fast");
    await worker.assigned();
  });

  test("[ST2] a tier that cannot be read is Open, and logged", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const hub = new TestHub();
    const key = await staked(1_000);
    await env.DB.prepare("ALTER TABLE stakes RENAME TO away").run();
    const worker = await hub.connect(key);
    expect((await worker.register()).tier).toBe("Open");
    await env.DB.prepare("ALTER TABLE away RENAME TO stakes").run();
    expect(log.mock.calls.join()).toContain("stake_unreadable");
  });
});
