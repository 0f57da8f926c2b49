import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { LateResults } from "../../../src/coordinator/hub/job-answers.ts";

/** Questions that are answered when the test says so. */
function desk(): { lookups: LateResults; asked: string[]; ask: (conn: string) => boolean; answer: () => Promise<void> } {
  const lookups = new LateResults();
  const asked: string[] = [];
  const open: PromiseWithResolvers<void>[] = [];
  const ask = (conn: string): boolean =>
    lookups.add(conn, () => {
      asked.push(conn);
      const one = Promise.withResolvers<void>();
      open.push(one);
      return one.promise;
    });
  const answer = async (): Promise<void> => {
    open.shift()?.resolve();
    for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  };
  return { lookups, asked, ask, answer };
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

test("[LM1] a limited number of lookups may wait", () => {
  const { ask } = desk();
  for (let n = 0; n < LIMITS.lookups + LIMITS.lookupsWaiting; n++) expect(ask(`w${n}`)).toBe(true);
  expect(ask("late")).toBe(false);
});
