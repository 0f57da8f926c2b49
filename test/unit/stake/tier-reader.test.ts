import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { TierReader } from "../../../src/coordinator/stake/tier-reader.ts";
import type { StakeSource, TierResult } from "../../../src/coordinator/stake/sources.ts";

type Read = { keys: readonly string[]; answer: (readings: TierResult[]) => void; fail: (error: Error) => void };

/** A source whose reads end when the test says so. */
class ManualSource implements StakeSource {
  readonly keysPerRead: number;
  readonly reads: Read[] = [];
  constructor(keysPerRead: number) {
    this.keysPerRead = keysPerRead;
  }
  read(keys: readonly string[]): Promise<TierResult[]> {
    return new Promise((answer, fail) => this.reads.push({ keys, answer, fail }));
  }
}

const VERIFIED: TierResult = { ok: true, value: "Verified" };
const keys = (count: number, name = "k") => Array.from({ length: count }, (_, at) => `${name}${at}`);
const turn = () => new Promise<void>((resolve) => setTimeout(resolve));

let now = 0;
let log: string[] = [];
beforeEach(() => {
  now = 1_000_000;
  log = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void log.push(line));
});
afterEach(() => vi.restoreAllMocks());

function begin(keysPerRead: number) {
  const source = new ManualSource(keysPerRead);
  return { source, reader: new TierReader(source, () => now) };
}

describe("TierReader", () => {
  test("[ST2] keys that are asked for in one turn are read together, as many as the source allows", async () => {
    const { source, reader } = begin(100);
    const asked = keys(250).map((key) => reader.read(key));
    await turn();
    expect(source.reads.map((read) => read.keys.length)).toEqual([100, 100, 50]);
    for (const read of source.reads) read.answer(read.keys.map(() => VERIFIED));
    expect(await Promise.all(asked)).toEqual(asked.map(() => VERIFIED));
  });

  test("[ST2] never more reads at once than the limit; keys that are asked for meanwhile wait and are read together", async () => {
    const { source, reader } = begin(1);
    const asked = keys(40).map((key) => reader.read(key));
    let done = 0;
    await turn();
    while (done < 40) {
      expect(source.reads.length - done).toBe(Math.min(LIMITS.stakeReads, 40 - done));
      source.reads[done++]?.answer([VERIFIED]);
      await turn();
    }
    expect(await Promise.all(asked)).toHaveLength(40);
    expect(source.reads.map((read) => read.keys[0])).toEqual(keys(40));
  });

  test("[ST2] callers that wait for the same key share one read; a call after that read has begun starts another one", async () => {
    const { source, reader } = begin(1);
    const first = reader.read("a");
    expect(reader.read("a")).toBe(first);
    await turn();
    const second = reader.read("a");
    await turn();
    expect(source.reads).toHaveLength(2);
    source.reads[1]?.answer([{ ok: true, value: "Sentinel" }]);
    source.reads[0]?.answer([VERIFIED]);
    expect([await first, await second]).toEqual([VERIFIED, { ok: true, value: "Sentinel" }]);
  });

  test("[ST2] a read that fails gives no tiers and logs one line, and the next read starts", async () => {
    const { source, reader } = begin(3);
    const asked = keys(3).map((key) => reader.read(key));
    await turn();
    source.reads[0]?.fail(new TypeError("https://node/secret-api-key"));
    expect(await Promise.all(asked)).toEqual([null, null, null]);
    expect(log.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ event: "stake_unreadable", level: "error", key: "k0", keys: 3, error: "TypeError" }),
    ]);
    expect(log.join()).not.toContain("secret");
    void reader.read("next");
    await turn();
    expect(source.reads[1]?.keys).toEqual(["next"]);
  });

  test("[ST2] a key that cannot be read does not affect the others of its read; a missing answer is an invalid response", async () => {
    const { source, reader } = begin(3);
    const asked = keys(3).map((key) => reader.read(key));
    await turn();
    source.reads[0]?.answer([VERIFIED, { ok: false, reason: "no_contract" }]);
    expect(await Promise.all(asked)).toEqual([VERIFIED, { ok: false, reason: "no_contract" }, { ok: false, reason: "invalid_response" }]);
    expect(log.map((line) => JSON.parse(line))).toEqual([{ level: "error", event: "stake_unreadable", key: "k1", keys: 2, reason: "no_contract" }]);
  });

  test("[ST2] a key that waits too long behind a hanging source gets no answer, and is not read", async () => {
    const { source, reader } = begin(1);
    const asked = keys(LIMITS.stakeReads + 200).map((key) => reader.read(key));
    await turn();
    now += TIMING.stakeWait;
    const late = reader.read("late");
    source.reads[0]?.fail(new Error("timeout"));
    expect(await Promise.all([asked[0], ...asked.slice(LIMITS.stakeReads)])).toEqual(Array.from({ length: 201 }, () => null));
    expect(source.reads.map((read) => read.keys[0])).toEqual([...keys(LIMITS.stakeReads), "late"]);
    source.reads.at(-1)?.answer([VERIFIED]);
    expect(await late).toEqual(VERIFIED);
  });
});
