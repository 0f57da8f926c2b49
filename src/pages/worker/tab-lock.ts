// The lock that makes one tab the worker, and what a tab does that does not have it.

const LOCK_NAME = "compute-router-worker";

/** Called when the lock of this tab changes. */
type LockHooks = {
  /** This tab is the worker now. */
  onAcquired: () => void;
  /** Another tab is the worker; this tab gets the lock when that tab is closed. */
  onBusy: () => void;
  /** Another tab took the lock; this tab waits again. */
  onLost: () => void;
};

/** Makes sure that one tab at a time is the worker [WS7]. Two tabs with one key would replace each other at the coordinator. */
export class TabLock {
  readonly #locks: LockManager | undefined;
  readonly #hooks: LockHooks;
  #waiting: AbortController | null = null;

  /** `locks` is missing on plain http; then the coordinator decides which tab is the worker. */
  constructor(locks: LockManager | undefined, hooks: LockHooks) {
    this.#locks = locks;
    this.#hooks = hooks;
  }

  /** Takes the lock, or reports that it is busy and waits for it. */
  async acquire(): Promise<void> {
    if (this.#locks === undefined) return this.#hooks.onAcquired();
    const got = await this.#request({ ifAvailable: true });
    if (got) return;
    this.#hooks.onBusy();
    this.#waiting = new AbortController();
    await this.#request({ signal: this.#waiting.signal });
  }

  /** Takes the lock from the tab that has it. */
  async takeOver(): Promise<void> {
    this.#waiting?.abort();
    await this.#request({ steal: true });
  }

  /** Resolves to false if the lock is not available, otherwise when the lock ends. */
  async #request(options: LockOptions): Promise<boolean> {
    let acquired = false;
    try {
      await this.#locks?.request(LOCK_NAME, options, (lock) => {
        if (lock === null) return;
        acquired = true;
        this.#hooks.onAcquired();
        // The tab keeps the lock until it is closed or another tab steals it.
        return new Promise<never>(() => {});
      });
    } catch (error) {
      if (acquired) {
        // Another tab has stolen the lock.
        this.#hooks.onLost();
        void this.acquire();
      } else if (!(error instanceof Error) || error.name !== "AbortError") {
        // An AbortError only means that this tab no longer waits. Any other error means that the browser gives no locks to a site that may not store data.
        // Then the coordinator decides.
        this.#hooks.onAcquired();
        return true;
      }
    }
    return acquired;
  }
}
