import { expect, test } from "vitest";
import type { Payment } from "../../../src/coordinator/dispatch/index.ts";
import { ChainReads } from "../../../src/coordinator/hub/chain-reads.ts";
import { HOUR, MINUTE, TIMING } from "../../../src/protocol/times.ts";

/** Payments in doubt, a chain that never decides and takes `most` payments a round, and a clock. */
function desk(most: number): { reads: ChainReads; doubt: (key: string) => void; round: () => Promise<string[]>; at: (now: number) => void } {
  let now = 100 * HOUR;
  let asked: string[] = [];
  const source = {
    most,
    block: () => Promise.resolve(null),
    read: (doubts: readonly { key: string }[]) => {
      asked = doubts.map(({ key }) => key);
      return Promise.resolve(doubts.map(() => ({ kind: "undecided", found: null, more: false }) as const));
    },
  };
  const ledger = {
    doubt: (key: string) => ({ key, payload: "", requirements: "", expiresAt: 0, block: null }),
    unresolved: () => [],
    keepChainRead: () => undefined,
  };
  const dispatcher = { state: { ledger: { payments: new Map() } }, becameDurable: () => Promise.resolve(true) };
  const reads = new ChainReads({ source, ledger, dispatcher, clock: () => now } as unknown as ConstructorParameters<typeof ChainReads>[0]);
  const payment = (key: string) => ({ key, doubts: 1, phase: { kind: "unknown", retryDue: 0 } }) as unknown as Payment;
  return {
    reads,
    doubt: (key) => reads.note([payment(key)]),
    at: (time) => (now = time),
    async round() {
      asked = [];
      await reads.read();
      return asked;
    },
  };
}

const START = 100 * HOUR;

test("[PY8] one round reads so many payments, those that wait for longest; the others come in the next one", async () => {
  const { doubt, round, at } = desk(2);
  for (const [n, key] of ["first", "second", "third"].entries()) {
    at(START + n);
    doubt(key);
  }
  at(START + MINUTE);
  expect(await round()).toEqual(["first", "second"]);
  expect(await round()).toEqual(["third"]);
  expect(await round()).toEqual([]);
});

test("[PY8] a payment is read soon after its doubt began, then after longer and longer pauses: five minutes, and an hour after hours without a decision", async () => {
  const { reads, doubt, round, at } = desk(1);
  doubt("one");
  let now = START;
  const pauses: number[] = [];
  for (let n = 0; n < 60; n++) {
    const due = reads.due ?? expect.unreachable();
    pauses.push(due - now);
    at(due - 1);
    expect(await round()).toEqual([]);
    at((now = due));
    expect(await round()).toEqual(["one"]);
  }
  expect(pauses.slice(0, 4)).toEqual([TIMING.chainFirst, TIMING.settleRetry, 2 * TIMING.settleRetry, 4 * TIMING.settleRetry]);
  expect(pauses[20]).toBe(TIMING.settleRetryMax);
  expect(pauses.at(-1)).toBe(HOUR);
});

test("[PY8] after the clock was set back by hours, what waits is read at once, and not hours later", async () => {
  const { doubt, round, at } = desk(1);
  doubt("one");
  at(START - 2 * HOUR);
  expect(await round()).toEqual(["one"]);
});
