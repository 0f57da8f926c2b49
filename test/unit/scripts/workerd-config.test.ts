import { expect, test } from "vitest";
import { heapFlags } from "../../../scripts/workerd-config.ts";

test("with one core V8 collects its garbage without threads, and elsewhere with them", () => {
  expect(heapFlags(1)).toBe(`${heapFlags(2)} --single-threaded-gc`);
  expect(heapFlags(8)).toBe(heapFlags(2));
});
