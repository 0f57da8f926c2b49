import { expect, test } from "vitest";
import { newJobId } from "../../../src/coordinator/routes/commit.ts";

test("a job id is a UUID of version 7 that begins with its time (RFC 9562 §5.7)", () => {
  expect(newJobId(0x017f22e279b0)).toMatch(/^017f22e2-79b0-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("ids of later milliseconds come later in the order of their text, and those of one millisecond differ", () => {
  const times = [0, 1, 0xff, 0x100, 1_700_000_000_000, 1_700_000_000_001, 4_000_000_000_000];
  const ids = times.map(newJobId);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(Array.from({ length: 1_000 }, () => newJobId(1))).size).toBe(1_000);
});
