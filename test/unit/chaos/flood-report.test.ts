import { describe, expect, test } from "vitest";
import { MiB } from "../../../src/protocol/limits.ts";
import { BOUNDS, faults, perHour, type Sample } from "../../chaos/flood-report.ts";

const served = (done: number) => ({ committed: 100, done, times: [], others: new Map() });

/** Samples of so many seconds, with memory and disk by the second. */
const samples = (seconds: number, memory: (second: number) => number, hub: (second: number) => number = () => 0): Sample[] =>
  [0, 1, 2, 3, 4, 5, 6].map((n) => ({ second: (n * seconds) / 6, memory: memory((n * seconds) / 6), hub: hub((n * seconds) / 6), d1: 0 }));

describe("the verdict about a flood", () => {
  test("[LM1] memory that rises once and stays, and 95 % of the jobs, are no fault", () => {
    expect(faults({ samples: samples(3_600, (second) => (second < 100 ? second * MiB : 100 * MiB)), served: served(95) }, 1)).toEqual([]);
  });

  test("[LM1] memory that goes on growing is one, if the flood lasts long enough to see it", () => {
    const pace = (2 * BOUNDS.memoryPerHour) / 3_600;
    const later = (second: number): number => Math.max(0, second - 1_500) * pace;
    expect(faults({ samples: samples(3_000, later), served: served(100) }, 1)).toEqual(["memory grows by 512 MiB an hour"]);
    expect(faults({ samples: samples(1_500, (second) => second * pace), served: served(100) }, 1)).toEqual([]);
    expect(
      perHour(
        samples(300, (second) => second * pace),
        "memory",
      ),
    ).toBeCloseTo(2 * BOUNDS.memoryPerHour);
  });

  test("[LM1, LM3] so are too much memory, too much disk, lost jobs, and a run without any", () => {
    expect(faults({ samples: samples(60, (second) => (second > 0 ? 300 * MiB : 0)), served: served(100) }, 1)).toEqual(["memory grew by 300 MiB"]);
    const disk = samples(
      60,
      () => 0,
      (second) => (second > 0 ? 400 * MiB : 0),
    );
    expect(faults({ samples: disk, served: served(100) }, 1)).toEqual(["the databases grew by 399 MiB"]);
    expect(faults({ samples: disk, served: served(100) }, 2)).toEqual([]);
    expect(faults({ samples: samples(60, () => 0), served: served(94) }, 1)).toEqual(["94.0 % of the honest jobs completed"]);
    expect(faults({ samples: samples(60, () => 0), served: { ...served(0), committed: 0 } }, 1)).toEqual(["nothing was measured"]);
  });
});
