const NAME = "compute-router-worker";

/** What happens to the lock of this tab. */
export type LockHooks = {
  /** This tab is the worker now. */
  onHeld: () => void;
  /** Another tab is; this one gets it when that is closed. */
  onBusy: () => void;
  /** Another tab took it over; this one waits again. */
  onLost: () => void;
};

/** One tab at a time is the worker [WS7]: two with one key would throw each other out of the coordinator. */
export class TabLock {
  readonly #locks: LockManager | undefined;
  readonly #hooks: LockHooks;
  #waiting: AbortController | null = null;

  /** `locks` is missing on plain http; then the coordinator decides. */
  constructor(locks: LockManager | undefined, hooks: LockHooks) {
    this.#locks = locks;
    this.#hooks = hooks;
  }

  /** Takes the lock, or waits for it and says so. */
  async acquire(): Promise<void> {
    if (this.#locks === undefined) return this.#hooks.onHeld();
    const got = await this.#hold({ ifAvailable: true });
    if (got) return;
    this.#hooks.onBusy();
    this.#waiting = new AbortController();
    await this.#hold({ signal: this.#waiting.signal });
  }

  /** Takes the lock from whoever has it. */
  async takeOver(): Promise<void> {
    this.#waiting?.abort();
    await this.#hold({ steal: true });
  }

  /** Resolves to false if it was not to be had, else when the lock is over. */
  async #hold(options: LockOptions): Promise<boolean> {
    let held = false;
    try {
      await this.#locks?.request(NAME, options, (lock) => {
        if (lock === null) return;
        held = true;
        this.#hooks.onHeld();
        // Held until the tab is closed or another one steals it.
        return new Promise<never>(() => {});
      });
    } catch (error) {
      if (held) {
        // Stolen.
        this.#hooks.onLost();
        void this.acquire();
      } else if (!(error instanceof Error) || error.name !== "AbortError") {
        // Not one that is no longer waited for: this browser gives no locks to a site that may store nothing. The coordinator decides then too.
        this.#hooks.onHeld();
        return true;
      }
    }
    return held;
  }
}
