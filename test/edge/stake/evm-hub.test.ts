import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import { CLOSE } from "../../../src/protocol/worker-messages.ts";
import { CONTRACT, hang, RPC_URL, StakeNode } from "../support/stake-node.ts";
import { newKey, type TestWorker } from "../support/worker.ts";
import { TestHub, until, withSettings } from "../support/worker-hub.ts";

withSettings({ STAKE_SOURCE: "evm", EVM_RPC_URL: RPC_URL, EVM_STAKE_CONTRACT: CONTRACT, EVM_STAKE_DECIMALS: "6" });

const token = 1_000_000n;
let node: StakeNode;
let logged: () => string;

beforeEach(() => {
  node = new StakeNode();
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  logged = () => log.mock.calls.join("\n");
  // The stake is read again after exactly 5 minutes, never earlier at random.
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => vi.restoreAllMocks());

/** Moves the clock forward; every worker sends a heartbeat first, so that none is silent. */
async function pass(hub: TestHub, workers: readonly TestWorker[], ms: number): Promise<void> {
  hub.skip(ms);
  for (const worker of workers) await worker.quiet();
  await hub.pass(0);
}

async function staked(hub: TestHub, tokens: bigint): Promise<TestWorker> {
  const key = newKey();
  node.stakes.set(key.publicKey, tokens * token);
  return hub.worker({ key });
}

describe("STAKE_SOURCE=evm in the hub", () => {
  test("[ST2] after its stake rose the worker is told and gets the FAST job; after it fell the worker is told and gets none", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await staked(hub, 5n);
    await pass(hub, [worker], TIMING.stakeRefresh - 20_000);
    const fast = await hub.commit("fast");
    node.stakes.set(worker.key.publicKey, 1_000n * token);
    await pass(hub, [worker], 20_000);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Sentinel" });
    const job = await worker.assigned();
    expect(job).toMatchObject({ job_id: fast, policy: "FAST" });
    await worker.complete(job);
    node.stakes.set(worker.key.publicKey, 99n * token);
    await pass(hub, [worker], TIMING.stakeRefresh);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Open" });
    await hub.commit("fast");
    await pass(hub, [worker], 20_000);
    await worker.quiet();
    expect((await worker.register()).tier).toBe("Open");
  });

  test("[ST2] a worker whose stake falls during a FAST job may finish the job", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await staked(hub, 100n);
    await pass(hub, [worker], TIMING.stakeRefresh - 20_000);
    await hub.commit("fast");
    const job = await worker.assigned();
    node.stakes.set(worker.key.publicKey, 0n);
    await pass(hub, [worker], 20_000);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Open" });
    expect((await worker.complete(job)).status).toBe("accepted");
  });

  test("[ST2] if the chain cannot be reached a worker is Open, which is logged without the URL; the next sweep reads the stake", async () => {
    const hub = new TestHub();
    hub.skip(0);
    node.before = () => Promise.reject(new TypeError(`cannot reach ${RPC_URL}`));
    const worker = await hub.connect();
    node.stakes.set(worker.key.publicKey, 100n * token);
    expect((await worker.register()).tier).toBe("Open");
    expect(logged()).toMatch(/"event":"stake_unreadable".*"reason":"unreachable"/);
    expect(logged()).not.toMatch(/node\.test|secret/);
    node.before = null;
    await pass(hub, [worker], TIMING.sweep - 1_000);
    expect(node.requests).toEqual([1]);
    await pass(hub, [worker], TIMING.sweep);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Verified" });
  });

  test("[ST2] a tier that can no longer be read is Open from then on", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await staked(hub, 100n);
    node.garbage.set(worker.key.publicKey, "0x");
    await pass(hub, [worker], TIMING.stakeRefresh);
    expect(await worker.next("tier")).toEqual({ type: "tier", tier: "Open" });
    expect(logged()).toMatch(/"event":"stake_unreadable","key":"[0-9a-f]{8}","keys":1,"reason":"no_contract"/);
  });

  test("[ST2] many workers are read again in one request, and no more often when the hub sleeps between sweeps", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const workers = await Promise.all(Array.from({ length: 12 }, () => staked(hub, 100n)));
    // Workers that registered during a read share the next read.
    expect(node.requests.length).toBeLessThanOrEqual(12);
    node.requests.length = 0;
    for (let sweep = 0; sweep < 9; sweep++) {
      await hub.evict();
      await pass(hub, workers, TIMING.sweep);
    }
    expect(node.requests).toEqual([]);
    await hub.evict();
    await pass(hub, workers, TIMING.sweep);
    await until(async () => node.requests.length > 0, "read again");
    expect(node.requests).toEqual([12]);
  });

  test("[ST2] no second refresh starts while a long one runs", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const workers = [await staked(hub, 100n), await staked(hub, 100n)];
    node.requests.length = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    node.before = () => promise;
    for (let sweep = 0; sweep < 4; sweep++) await pass(hub, workers, TIMING.stakeRefresh);
    expect(node.requests).toEqual([2]);
    resolve();
    await until(async () => node.underWay === 0, "answered");
    for (const worker of workers) await worker.quiet();
    // At the end of the job its full time starts again.
    await pass(hub, workers, TIMING.stakeRefresh);
    await until(async () => node.requests.length === 2, "a second refresh");
    for (const worker of workers) await worker.quiet();
  });

  test("[ST2] an answer that was asked for on an older socket changes nothing", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const key = newKey();
    node.stakes.set(key.publicKey, 100n * token);
    const older = await hub.worker({ key, signed: true });
    const { promise, resolve } = Promise.withResolvers<Response>();
    node.before = () => promise;
    await pass(hub, [older], TIMING.stakeRefresh);
    await until(async () => node.underWay === 1, "asked");
    node.before = null;
    const newer = await hub.connect(key);
    expect((await newer.register({ signed: true })).tier).toBe("Verified");
    resolve(Response.json({ id: 0, result: `0x${"0".repeat(64)}` }));
    await until(async () => node.underWay === 0, "answered");
    await newer.quiet();
    await hub.commit("fast");
    await newer.assigned();
  });

  test("[WS5] [WS7] a registration that waits for its tier is refused if its key signs on another socket meanwhile", async () => {
    const hub = new TestHub();
    const key = newKey();
    const { promise, resolve } = Promise.withResolvers<void>();
    node.before = () => promise;
    const stranger = await hub.connect(key);
    stranger.send(stranger.registration());
    await until(async () => node.underWay === 1, "asked");
    node.before = null;
    const owner = await hub.worker({ key, signed: true });
    resolve();
    expect(await stranger.next("register_ack")).toMatchObject({ status: "error", error: "auth_required" });
    await hub.commit();
    await owner.assigned();
  });

  test("[WS7] a registration that waits for its tier does not replace a newer one of its key, which goes on with its job", async () => {
    const hub = new TestHub();
    const key = newKey();
    const { promise, resolve } = Promise.withResolvers<void>();
    node.before = () => promise;
    const left = await hub.connect(key);
    left.send(left.registration({ signed: true, resume: [] }));
    await until(async () => node.underWay === 1, "asked");
    node.before = null;
    const newest = await hub.worker({ key, signed: true });
    const id = await hub.commit();
    const job = await newest.assigned();
    resolve();
    expect(await left.closed()).toBe(CLOSE.replaced);
    await newest.complete(job);
    expect(await hub.job(id)).toMatchObject({ status: "completed" });
  });

  test("[WS7] a signed registration that waits for its tier replaces an unsigned one of its key that came meanwhile", async () => {
    const hub = new TestHub();
    const { promise, resolve } = Promise.withResolvers<void>();
    node.before = () => promise;
    const owner = await hub.connect();
    owner.send(owner.registration({ signed: true }));
    await until(async () => node.underWay === 1, "asked");
    node.before = null;
    const stranger = await hub.worker({ key: owner.key });
    resolve();
    expect(await owner.next("register_ack")).toMatchObject({ status: "ok", authenticated: true });
    expect(await stranger.closed()).toBe(CLOSE.replaced);
  });

  test("[ST2] a chain that hangs delays a registration until its deadline, and a second register frame meanwhile changes nothing", async () => {
    const { stakeAnswer } = TIMING;
    onTestFinished(() => void Object.assign(TIMING, { stakeAnswer }));
    Object.assign(TIMING, { stakeAnswer: 500 });
    const hub = new TestHub();
    const given = Promise.withResolvers<void>();
    node.before = (signal) => hang(signal).finally(() => given.resolve());
    const worker = await hub.connect();
    // In one turn, so that the second one arrives within the deadline on a busy machine too.
    const register = { from: worker, frame: worker.registration() };
    await hub.together(register, register);
    await given.promise;
    expect(await worker.next("register_ack")).toMatchObject({ status: "ok", tier: "Open" });
    await worker.quiet();
    expect(logged()).toContain('"reason":"timeout"');
    expect(node.requests).toEqual([1]);
  });
});
