// Watches the wall clock of this machine for a step back, which workerd does not follow: its time stands still until the clock has caught up, and no timer or
// alarm of a Durable Object fires until then.

/** Both clocks at one moment, in ms: the wall clock, which can be set, and one that only goes on, and stands still while the machine is suspended. */
export type Clocks = { wall: number; steady: number };

/** What is known of the clocks since a start of workerd: the last look at them, and the latest time of the wall clock at any look. */
export type Seen = { last: Clocks; latest: number };

/** A smaller step is over soon. */
const SLACK_MS = 5_000;
const LOOK_MS = 1_000;

/**
 * How far the wall clock is behind the time that workerd can have seen, ms; 0 if workerd gets over it. A clock that is slewed never goes back, and the
 * machine's sleep is a step forward.
 */
export function setBackBy({ last, latest }: Seen, now: Clocks): number {
  // It went on from the last look and may have been set just now.
  const expected = last.wall + now.steady - last.steady;
  const behind = Math.max(latest, expected) - now.wall;
  return behind > SLACK_MS ? behind : 0;
}

/** Calls a function when the wall clock was set back since the last start of workerd. */
export class WallClock {
  readonly #read: () => Clocks;
  #seen: Seen;

  constructor(read: () => Clocks = () => ({ wall: Date.now(), steady: performance.now() })) {
    this.#read = read;
    this.#seen = this.#now();
  }

  /** A workerd starts: whatever the clock was before, its time begins now. */
  begin(): void {
    this.#seen = this.#now();
  }

  /** Looks once a second for as long as this process lives. `onSetBack` is called at each look until a workerd starts. */
  watch(onSetBack: (ms: number) => void): void {
    setInterval(() => {
      const now = this.#read();
      const ms = setBackBy(this.#seen, now);
      if (ms > 0) return onSetBack(ms);
      this.#seen = { last: now, latest: Math.max(this.#seen.latest, now.wall) };
    }, LOOK_MS).unref();
  }

  #now(): Seen {
    const last = this.#read();
    return { last, latest: last.wall };
  }
}
