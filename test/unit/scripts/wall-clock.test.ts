import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Clocks, setBackBy, WallClock } from "../../../scripts/wall-clock.ts";

const HOUR = 3_600_000;
/** At the last look the wall clock stood at 1 h, the other one at 0. */
const SEEN = { last: { wall: HOUR, steady: 0 }, latest: HOUR };

describe("how far the wall clock was set back", () => {
  it.each([
    ["an hour", { wall: 1_000, steady: 1_000 }, HOUR],
    ["a bit more than 5 s", { wall: HOUR - 4_001, steady: 1_000 }, 5_001],
    ["5 s", { wall: HOUR - 4_000, steady: 1_000 }, 0],
    ["not at all", { wall: HOUR + 1_000, steady: 1_000 }, 0],
    ["forward, or a machine that slept", { wall: 9 * HOUR, steady: 1_000 }, 0],
    ["a minute, between two looks that were far apart because this process was busy", { wall: HOUR + 60_000, steady: 120_000 }, 60_000],
  ])("%s", (_, now, ms) => {
    expect(setBackBy(SEEN, now)).toBe(ms);
  });

  it("in several steps counts from the latest time", () => {
    expect(setBackBy({ last: { wall: HOUR - 4_000, steady: 0 }, latest: HOUR }, { wall: HOUR - 7_000, steady: 1_000 })).toBe(7_000);
  });
});

describe("the watch", () => {
  const clocks: Clocks = { wall: HOUR, steady: 0 };
  let told: number[] = [];
  let clock: WallClock;
  /** Lets seconds pass, in each of which the wall clock goes on by so much. */
  const pass = (seconds: number, wall = 1_000): void => {
    for (let second = 0; second < seconds; second++) {
      clocks.wall += wall;
      clocks.steady += 1_000;
      vi.advanceTimersByTime(1_000);
    }
  };
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setInterval"] });
    told = [];
    clock = new WallClock(() => ({ ...clocks }));
    clock.watch((ms) => told.push(ms));
  });
  afterEach(() => void vi.useRealTimers());

  it("says nothing of a clock that is slewed for a day, as far as it may be", () => {
    pass(86_400, 900);
    expect(told).toEqual([]);
  });

  it("says nothing while the machine sleeps again and again", () => {
    for (let night = 0; night < 3; night++) {
      clocks.wall += 8 * HOUR;
      pass(10);
    }
    expect(told).toEqual([]);
  });

  it("tells of a step back at each look, until a workerd starts", () => {
    pass(10);
    clocks.wall -= HOUR;
    pass(2);
    expect(told).toEqual([HOUR, HOUR]);
    clock.begin();
    pass(10);
    expect(told).toHaveLength(2);
  });

  it("a step back before workerd starts is none for it", () => {
    clocks.wall -= HOUR;
    clock.begin();
    pass(10);
    expect(told).toEqual([]);
  });
});
