import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { EventOf } from "../../../src/coordinator/dispatch/index.ts";
import type { Registered } from "../../../src/coordinator/hub/attachment.ts";
import type { Conn } from "../../../src/coordinator/hub/sockets.ts";
import { Tiers } from "../../../src/coordinator/hub/tiers.ts";
import type { StakeSource, TierResult } from "../../../src/coordinator/stake/sources.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { Random } from "../../simulation/random.ts";

const START = 1_000_000_000;
/** Where the workers of a hub would be: as many sockets as it takes, and what they and the core are told. */
class Crowd {
  now = START;
  random: () => number;
  readonly told: { key: string; tier: string }[] = [];
  /** True while no attachment can be written. */
  broken = false;
  readonly #conns: Conn[] = [];
  readonly tiers: Tiers;

  constructor(source: StakeSource) {
    const random = new Random(7);
    this.random = () => random.next();
    const sockets = {
      registered: () => this.#conns.flatMap((conn) => (conn.attachment.worker === null ? [] : [{ conn, worker: conn.attachment.worker }])),
      isHere: () => true,
      identify: (conn: Conn, worker: Registered) => {
        if (this.broken) throw new Error("broken");
        conn.attachment = { ...conn.attachment, worker };
      },
    };
    const dispatcher = {
      send: () => {},
      apply: ({ key, tier }: EventOf<"tier">) => void this.told.push({ key, tier }),
    };
    this.tiers = new Tiers({ source, sockets, dispatcher, clock: () => this.now, random: () => this.random() });
  }

  async join(key: string): Promise<void> {
    const worker = {
      key,
      id: key,
      authenticated: true,
      capabilities: [],
      acks: true,
      context: 0,
      registeredAt: 0,
      lastUsedAt: 0,
      draining: false,
      models: "",
      contexts: "",
      chats: false,
    };
    const standing = await this.tiers.readAtRegistration(key);
    const attachment = { conn: key, nonce: "", host: "", client: "", openedAt: this.now, seenAt: this.now, worker: { ...worker, ...standing } };
    // The socket itself is never touched here.
    this.#conns.push({
      id: key,
      attachment,
      ws: Object.create(null),
      seenAt: 0,
      badFrames: 0,
      beatAt: 0,
      unreadBytes: 0,
      budgets: null,
      exempted: null,
      foreignResults: 0,
      registering: false,
      registration: 0,
      leaving: false,
    });
  }

  tierOf(key: string): string | undefined {
    return this.#conns.find((conn) => conn.id === key)?.attachment.worker?.tier;
  }
}

/** A source that answers at once and keeps a record. */
class Recorded implements StakeSource {
  readonly keysPerRead: number;
  readonly readAt = new Map<string, number[]>();
  calls = 0;
  keys = 0;
  isDown = false;
  answer: (key: string) => TierResult = () => ({ ok: true, value: "Verified" });
  now: () => number = () => 0;

  constructor(keysPerRead: number) {
    this.keysPerRead = keysPerRead;
  }

  async read(keys: readonly string[]): Promise<TierResult[]> {
    this.calls++;
    if (this.isDown) throw new Error("down");
    this.keys += keys.length;
    for (const key of keys) this.readAt.set(key, [...(this.readAt.get(key) ?? []), this.now()]);
    return keys.map(this.answer);
  }
}

function crowd(keysPerRead: number) {
  const source = new Recorded(keysPerRead);
  const all = new Crowd(source);
  source.now = () => all.now;
  return { source, all };
}

const keys = (count: number) => Array.from({ length: count }, (_, at) => `k${at}`);

let log = 0;
beforeEach(() => {
  log = 0;
  vi.spyOn(console, "error").mockImplementation(() => void log++);
});
afterEach(() => vi.restoreAllMocks());

describe("5,000 workers that came at once", () => {
  test.each([1, 100])("[ST2] are each read again within 5 min and a sweep, a limited number in a sweep, with %d keys a call", async (keysPerRead) => {
    const { source, all } = crowd(keysPerRead);
    await Promise.all(keys(LIMITS.sockets).map((key) => all.join(key)));
    expect(source.calls).toBe(LIMITS.sockets / keysPerRead);
    for (let sweep = 0; sweep < 40; sweep++) {
      all.now += TIMING.sweep;
      const before = { calls: source.calls, keys: source.keys };
      await all.tiers.refresh();
      expect(source.keys - before.keys).toBeLessThanOrEqual(LIMITS.stakesPerSweep);
      // A call is not always full: who is done asks on.
      expect(source.calls - before.calls).toBeLessThanOrEqual(keysPerRead === 1 ? LIMITS.stakesPerSweep : LIMITS.stakesPerSweep / 20);
    }
    const gaps = [...source.readAt.values()].flatMap((times) => [...times, all.now].slice(1).map((time, at) => time - (times[at] ?? 0)));
    expect(Math.max(...gaps)).toBeLessThanOrEqual(TIMING.stakeRefresh + TIMING.sweep);
    const reads = [...source.readAt.values()].reduce((sum, times) => sum + times.length, 0);
    // 20 minutes: the first read, an early second one, and then every 4 to 5 minutes.
    expect(reads / LIMITS.sockets).toBeLessThan(7);
    expect(all.told).toEqual([]);
  });
});

describe("a source that is down", () => {
  test("[ST2] is asked a few times in a sweep; all workers that were due become Open, and the next sweep asks again", async () => {
    const { source, all } = crowd(1);
    await Promise.all(keys(1_000).map((key) => all.join(key)));
    source.isDown = true;
    source.calls = 0;
    all.now += TIMING.stakeRefresh;
    await all.tiers.refresh();
    expect(source.calls).toBeLessThanOrEqual(LIMITS.stakeReads * 3);
    expect(log).toBe(source.calls);
    expect(all.told).toHaveLength(LIMITS.stakesPerSweep);
    expect(new Set(all.told.map(({ tier }) => tier))).toEqual(new Set(["Open"]));
    all.now += TIMING.sweep;
    await all.tiers.refresh();
    expect(all.told).toHaveLength(1_000);
    source.isDown = false;
    for (let sweep = 0; sweep < 2; sweep++) {
      all.now += TIMING.sweep;
      await all.tiers.refresh();
    }
    expect(all.told).toHaveLength(2_000);
    expect(keys(1_000).map((key) => all.tierOf(key))).toEqual(keys(1_000).map(() => "Verified"));
  });

  test("[ST2] single keys that cannot be read do not count as a source that is down", async () => {
    const { source, all } = crowd(1);
    await Promise.all(keys(300).map((key) => all.join(key)));
    source.answer = (key) => (Number(key.slice(1)) < 200 ? { ok: false, reason: "too_large" } : { ok: true, value: "Verified" });
    all.now += TIMING.stakeRefresh;
    await all.tiers.refresh();
    expect(all.told.map(({ key }) => key).toSorted()).toEqual(keys(200).toSorted());
  });
});

test("[ST2] a worker that becomes due just after a refresh waits for the next", async () => {
  const { source, all } = crowd(100);
  all.random = () => 0;
  await all.join("one");
  all.now += 10_000;
  await all.join("other");
  const keysReadAt = async (ms: number) => {
    all.now = START + TIMING.stakeRefresh + ms;
    const before = source.keys;
    await all.tiers.refresh();
    return source.keys - before;
  };
  expect([await keysReadAt(0), await keysReadAt(10_000), await keysReadAt(TIMING.sweep / 2)]).toEqual([1, 0, 1]);
});

test("[ST2] a fault in a refresh is logged, and the next sweep reads again", async () => {
  const { source, all } = crowd(1);
  await all.join("one");
  source.answer = () => ({ ok: true, value: "Sentinel" });
  all.now += TIMING.stakeRefresh;
  all.broken = true;
  await all.tiers.refresh();
  expect([log, all.tierOf("one")]).toEqual([1, "Verified"]);
  all.broken = false;
  all.now += TIMING.sweep;
  await all.tiers.refresh();
  expect(all.tierOf("one")).toBe("Sentinel");
});

test("[ST2] after the clock was set back stakes are read as soon as before", async () => {
  const { source, all } = crowd(1);
  await all.join("one");
  all.now += TIMING.stakeRefresh;
  await all.tiers.refresh();
  source.isDown = true;
  await all.join("down");
  source.isDown = false;
  all.now -= TIMING.failedClaims;
  await all.join("next");
  expect(all.tierOf("next")).toBe("Verified");
  source.answer = () => ({ ok: true, value: "Sentinel" });
  all.now += TIMING.stakeRefresh;
  await all.tiers.refresh();
  expect(all.tierOf("next")).toBe("Sentinel");
});

test("[ST2] a source that is down slows the first registration only; the sweep finds out when it is back", async () => {
  const { source, all } = crowd(1);
  source.isDown = true;
  await all.join("first");
  for (const key of keys(20)) await all.join(key);
  expect(source.calls).toBe(1);
  expect(all.tierOf("k7")).toBe("Open");
  source.isDown = false;
  all.now += TIMING.sweep;
  await all.tiers.refresh();
  expect(all.tierOf("k7")).toBe("Verified");
  await all.join("next");
  expect(all.tierOf("next")).toBe("Verified");
});
