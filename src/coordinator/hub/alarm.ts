import { TUNING } from "../tuning.ts";

type Parts = {
  storage: Pick<DurableObjectStorage, "getAlarm" | "setAlarm">;
  clock: () => number;
  /** The times at which something is due, ms since the epoch; null where nothing is. */
  dues: (now: number) => (number | null)[];
  /** True while the journal cannot be written. */
  isFailing: () => boolean;
};

/** The hub's one alarm, at the earliest time at which something is due. */
export class HubAlarm {
  readonly #parts: Parts;
  #isKnown = false;
  #at: number | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Goes on with the alarm that was set before the hub lost its memory. Returns by how much it is overdue, ms. */
  async begin(): Promise<number> {
    const { storage, clock } = this.#parts;
    const at = await storage.getAlarm();
    const late = at === null ? 0 : clock() - at;
    // The alarm that woke this object must not be replaced before it has run. One that is long overdue may never run.
    this.#at = late < TUNING.alarmLost ? at : null;
    this.#isKnown = true;
    this.set();
    return late;
  }

  /** Notes that no alarm is set any more. */
  forget(): void {
    this.#at = null;
  }

  /** Sets the alarm, not before `pause` ms from now. */
  set(pause: number = this.#parts.isFailing() ? TUNING.journalPause : 1): void {
    if (!this.#isKnown) return;
    const now = this.#parts.clock();
    const dues = this.#parts.dues(now).filter((due) => due !== null);
    if (dues.length === 0) return;
    // After a failed try what is due would be due again at once. An earlier alarm stays, because setting one is a write.
    const due = Math.max(Math.min(...dues), now + pause);
    if (this.#at !== null && this.#at <= due) return;
    this.#at = due;
    void this.#parts.storage.setAlarm(due);
  }
}
