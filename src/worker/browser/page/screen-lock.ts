/** What the system says about keeping the screen on. */
export type ScreenState = "on" | "released" | "refused" | "unsupported";

/** Keeps the screen on while wanted and visible: a phone that locks its screen stops the page. */
export class ScreenLock {
  readonly #wakeLock: WakeLock | undefined;
  readonly #onState: (state: ScreenState) => void;
  #wanted = false;
  #sentinel: WakeLockSentinel | null = null;
  #asking = false;

  constructor(wakeLock: WakeLock | undefined, onState: (state: ScreenState) => void) {
    this.#wakeLock = wakeLock;
    this.#onState = onState;
  }

  /** Asks for it or gives it back. The system takes it away whenever the page is hidden, so this is called again when that changes. */
  async want(wanted: boolean): Promise<void> {
    this.#wanted = wanted;
    if (this.#wakeLock === undefined) return this.#onState("unsupported");
    if (!wanted) {
      await this.#sentinel?.release();
      return;
    }
    if (this.#sentinel !== null || this.#asking) return;
    this.#asking = true;
    try {
      const sentinel = await this.#wakeLock.request("screen");
      this.#sentinel = sentinel;
      sentinel.addEventListener("release", () => {
        this.#sentinel = null;
        this.#onState("released");
      });
      this.#onState("on");
    } catch {
      // Hidden just now, or the system saves power.
      this.#onState("refused");
    } finally {
      this.#asking = false;
    }
    if (!this.#wanted) await this.#sentinel?.release();
  }
}
