import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { LateResults } from "../../../src/coordinator/hub/late-results.ts";

/** Questions that are answered when the test says so. */
function desk(): { asked: string[]; ask: (connId: string, more?: { owner?: string; chars?: number }) => boolean; answer: () => Promise<void> } {
  const lookups = new LateResults();
  const asked: string[] = [];
  const open: PromiseWithResolvers<void>[] = [];
  const ask = (connId: string, { owner = connId, chars = 100 } = {}): boolean =>
    lookups.add({ connId, owner, text: "x".repeat(chars) }, () => {
      asked.push(connId);
      const one = Promise.withResolvers<void>();
      open.push(one);
      return one.promise;
    });
  const answer = async (): Promise<void> => {
    open.shift()?.resolve();
    for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  };
  return { asked, ask, answer };
}

test("[WS10] a limited number of lookups run at once, the others wait for their turn", async () => {
  const { asked, ask, answer } = desk();
  for (let n = 0; n < LIMITS.lookups + 2; n++) expect(ask(`w${n}`)).toBe(true);
  expect(asked).toHaveLength(LIMITS.lookups);
  await answer();
  expect(asked.at(-1)).toBe(`w${LIMITS.lookups}`);
  await answer();
  expect(asked).toHaveLength(LIMITS.lookups + 2);
});

test("[LM1] one socket has a limited number of lookups; after one is answered it may have another, and other sockets do not wait for it", async () => {
  const { ask, answer } = desk();
  for (let n = 0; n < LIMITS.lookupsPerSocket; n++) expect(ask("greedy")).toBe(true);
  expect(ask("greedy")).toBe(false);
  expect(ask("other")).toBe(true);
  await answer();
  expect(ask("greedy")).toBe(true);
});

test("[LM1] all sockets of one client have a limited number of lookups, and other clients do not wait for it", async () => {
  const { ask, answer } = desk();
  for (let n = 0; n < LIMITS.lookupsPerClient; n++) expect(ask(`w${n}`, { owner: "greedy" })).toBe(true);
  expect(ask("late", { owner: "greedy" })).toBe(false);
  expect(ask("late", { owner: "other" })).toBe(true);
  await answer();
  expect(ask("late", { owner: "greedy" })).toBe(true);
});

test("[LM1] a limited number of lookups may wait", () => {
  const { ask } = desk();
  for (let n = 0; n < LIMITS.lookups + LIMITS.lookupsWaiting; n++) expect(ask(`w${n}`)).toBe(true);
  expect(ask("late")).toBe(false);
});

/** The characters of a frame that fills the share of a client. */
const LARGEST = LIMITS.lookupBytesPerClient / 2;

test("[LM1] the largest frame fits, and then nothing more of the same client, from whatever socket; after it is answered its bytes are free", async () => {
  const { ask, answer } = desk();
  expect(LARGEST).toBeGreaterThanOrEqual(LIMITS.frameBytes);
  expect(ask("w1", { owner: "client", chars: LARGEST })).toBe(true);
  for (const connId of ["w1", "w2"]) expect(ask(connId, { owner: "client", chars: 1 })).toBe(false);
  expect(ask("other", { chars: LARGEST })).toBe(true);
  await answer();
  expect(ask("w2", { owner: "client", chars: LARGEST })).toBe(true);
});

test("[LM1] a result that is refused for its bytes uses no lookup of its socket", async () => {
  const { ask, answer } = desk();
  ask("w", { chars: LARGEST });
  for (let n = 0; n < LIMITS.lookupsPerSocket; n++) expect(ask("w", { chars: 1 })).toBe(false);
  await answer();
  for (let n = 0; n < LIMITS.lookupsPerSocket; n++) expect(ask("w", { chars: 1 })).toBe(true);
});

test("[LM1] all clients together have so many bytes", () => {
  const { ask } = desk();
  const clients = Math.floor(LIMITS.lookupBytes / LIMITS.lookupBytesPerClient);
  for (let n = 0; n < clients; n++) expect(ask(`w${n}`, { chars: LARGEST })).toBe(true);
  expect(ask("late", { chars: LARGEST })).toBe(false);
  expect(ask("late", { chars: 1 })).toBe(true);
});
