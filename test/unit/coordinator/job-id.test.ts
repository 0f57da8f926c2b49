import { expect, test } from "vitest";
import { newJobId } from "../../../src/coordinator/routes/job-id.ts";
import { isForProbation } from "../../../src/coordinator/dispatch/standing.ts";

const NOW = Date.UTC(2026, 10, 28, 12);

test("a job id is a UUID of version 4 with the time in it, and every two differ", () => {
  const ids = Array.from({ length: 1_000 }, () => newJobId(NOW));
  const time = NOW.toString(16).slice(-10);
  for (const id of ids) expect(id).toMatch(new RegExp(`^0[0-4]${time.slice(0, 6)}-${time.slice(6)}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`));
  expect(new Set(ids.map((id) => id.slice(15))).size).toBe(ids.length);
});

test("ids of the same first byte are in the order of time, until the time starts again", () => {
  const turn = 2 ** 40;
  const times = [0, 1, 0xff_ffff, NOW, NOW + 1, NOW + 86_400_000].map((at) => newJobId(at).slice(2, 13));
  expect(times).toEqual(times.toSorted());
  expect(newJobId(turn + 5).slice(2, 13)).toBe("000000-0005");
});

test("[JB11] one job of five is for a worker on probation", () => {
  const count = 5_000;
  const share = Array.from({ length: count }, () => newJobId(NOW)).filter(isForProbation).length / count;
  // Six times the standard deviation.
  expect(Math.abs(share - 52 / 256)).toBeLessThan(6 * Math.sqrt((0.2 * 0.8) / count));
});
