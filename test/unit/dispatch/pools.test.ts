import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OrderedPool } from "../../../src/coordinator/dispatch/pools.ts";

type Entry = { id: string; order: number; seq: number };
type Step = { do: "add"; entry: Entry } | { do: "remove"; id: string } | { do: "where"; refused: string[] };

/** The same promises, kept in the plainest way. */
class NaivePool {
  entries: Entry[] = [];

  add(entry: Entry): void {
    this.remove(entry.id);
    this.entries.push(entry);
    this.entries.sort((a, b) => a.order - b.order || a.seq - b.seq);
  }

  remove(id: string): void {
    this.entries = this.entries.filter((entry) => entry.id !== id);
  }

  firstWhere(accept: (id: string) => boolean): Entry | undefined {
    return this.entries.find((entry) => accept(entry.id));
  }
}

const ids = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] as const;
const id = fc.constantFrom(...ids);
// An id keeps its `seq`, as jobs and workers do, so that no two entries are equal.
const entry = fc.record({ id, order: fc.integer({ min: 0, max: 5 }) }).map((it): Entry => ({ ...it, seq: ids.indexOf(it.id) }));
const step = fc.oneof(
  entry.map((it): Step => ({ do: "add", entry: it })),
  id.map((it): Step => ({ do: "remove", id: it })),
  fc.subarray([...ids]).map((refused): Step => ({ do: "where", refused })),
);

const placeOf = (found: ReturnType<OrderedPool["first"]>) => found && { id: found.id, order: found.order, seq: found.seq };

describe("OrderedPool", () => {
  test("[JB3] behaves like a sorted list, in any order of steps", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const pool = new OrderedPool();
        const naive = new NaivePool();
        for (const it of steps) {
          if (it.do === "add") {
            pool.add(it.entry.id, it.entry.order, it.entry.seq);
            naive.add(it.entry);
          } else if (it.do === "remove") {
            pool.remove(it.id);
            naive.remove(it.id);
          } else {
            const accept = (one: string) => !it.refused.includes(one);
            expect(placeOf(pool.firstWhere(accept))).toEqual(naive.firstWhere(accept));
          }
          expect(placeOf(pool.first())).toEqual(naive.entries[0]);
          expect(pool.size).toBe(naive.entries.length);
          expect(pool.ids().toSorted()).toEqual(naive.entries.map((one) => one.id).toSorted());
          expect(ids.filter((one) => pool.has(one))).toEqual(ids.filter((one) => naive.entries.some((other) => other.id === one)));
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("[JB3] empties in order", () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { maxLength: 200 }), (orders) => {
        const pool = new OrderedPool();
        for (const [seq, order] of orders.entries()) pool.add(String(seq), order, seq);
        const out: number[] = [];
        for (let first = pool.first(); first !== undefined; first = pool.first()) {
          out.push(first.order);
          pool.remove(first.id);
        }
        expect(out).toEqual(orders.toSorted((a, b) => a - b));
      }),
    );
  });
});
