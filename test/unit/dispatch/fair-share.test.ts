import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairShare, type ShareLimits } from "../../../src/coordinator/dispatch/shares.ts";

const OWNERS = ["a", "b", "c", "d"] as const;
const owner = fc.constantFrom(...OWNERS, null);

/** Limits that can be kept: what is guaranteed to all is no more than there is, and to one no more than it may hold. */
const limits = fc
  .record({ most: fc.integer({ min: 4, max: 40 }), part: fc.double({ min: 0.1, max: 1, noNaN: true }), guaranteed: fc.subarray([...OWNERS]) })
  .map(({ most, part, guaranteed: owners }): ShareLimits & { each: number; guaranteed: { owners: string[]; amount: number } } => {
    const each = Math.max(1, Math.floor(most * part));
    return { most, each, guaranteed: { owners, amount: owners.length === 0 ? 0 : Math.min(each, Math.floor(most / owners.length)) } };
  });

/** Owners come and go, each with an amount; a negative one gives back what was taken longest ago. */
const moves = fc.array(fc.record({ owner, amount: fc.integer({ min: 1, max: 6 }), gives: fc.boolean() }), { maxLength: 60 });

describe("a fair share", () => {
  test("[LM1] is never exceeded, neither in all nor by one owner, and everything is given back to the last one", () => {
    fc.assert(
      fc.property(limits, moves, (given, steps) => {
        const share = new FairShare(given);
        const taken: { owner: string | null; amount: number }[] = [];
        const used = (of: string | null) => taken.filter((each) => each.owner === of).reduce((sum, { amount }) => sum + amount, 0);
        for (const { owner: who, amount, gives } of steps) {
          const first = gives ? taken.shift() : undefined;
          if (first !== undefined) share.give(first.owner, first.amount);
          else if (share.take(who, amount)) taken.push({ owner: who, amount });
          expect(share.total).toBe(taken.reduce((sum, each) => sum + each.amount, 0));
          expect(share.total).toBeLessThanOrEqual(given.most);
          for (const each of OWNERS) {
            expect(share.of(each)).toBe(used(each));
            expect(share.of(each)).toBeLessThanOrEqual(given.each);
          }
        }
        for (const { owner: who, amount } of taken) share.give(who, amount);
        expect([share.total, ...OWNERS.map((each) => share.of(each))]).toEqual([0, 0, 0, 0, 0]);
      }),
    );
  });

  test("[LM1] what is guaranteed to an owner is there, whatever the others hold", () => {
    fc.assert(
      fc.property(limits, moves, (given, steps) => {
        const share = new FairShare(given);
        for (const { owner: who, amount } of steps) share.take(who, amount);
        const { owners, amount } = given.guaranteed;
        for (const each of owners) if (share.of(each) < amount) expect(share.take(each, amount - share.of(each))).toBe(true);
        expect(share.total).toBeLessThanOrEqual(given.most);
      }),
    );
  });

  test("[LM1] refuses only what would exceed a limit or what is kept for others", () => {
    fc.assert(
      fc.property(limits, moves, owner, (given, steps, who) => {
        const share = new FairShare(given);
        for (const step of steps) share.take(step.owner, step.amount);
        if (share.hasRoom(who)) return;
        const { owners, amount } = given.guaranteed;
        const unused = owners.filter((each) => each !== who).reduce((sum, each) => sum + Math.max(0, amount - share.of(each)), 0);
        const isAtItsOwn = who !== null && share.of(who) === given.each;
        expect(isAtItsOwn || share.total + unused === given.most).toBe(true);
      }),
    );
  });

  test("[LM1] what is added without room counts, and a guaranteed owner has its room all the same", () => {
    const share = new FairShare({ most: 4, guaranteed: { owners: ["a", "b"], amount: 1 } });
    share.add("a", 9);
    expect([share.hasRoom("a"), share.hasRoom(null), share.hasRoom("b"), share.hasRoom("b", 2)]).toEqual([false, false, true, false]);
    share.give("a", 7);
    expect([share.hasRoom("a"), share.hasRoom("b", 2), share.hasRoom("b", 3)]).toEqual([true, true, false]);
  });
});
