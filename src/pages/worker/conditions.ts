import type { PageSettings } from "./settings.ts";

type Battery = EventTarget & { readonly level: number; readonly charging: boolean };

/** Watches what the worker depends on, and tells each change. `onReturn` is called when the page or the network comes back. */
export async function watchConditions(onChange: (conditions: Conditions) => void, onReturn: () => void): Promise<void> {
  let battery: Battery | null = null;
  const tell = () =>
    onChange({
      hidden: document.visibilityState === "hidden",
      online: navigator.onLine,
      battery: battery === null ? null : { level: battery.level, charging: battery.charging },
    });
  document.addEventListener("visibilitychange", () => {
    tell();
    if (document.visibilityState === "visible") onReturn();
  });
  // Chrome's page lifecycle: `resume` comes after a freeze, `pageshow` after a stay in the back/forward cache.
  document.addEventListener("resume", onReturn);
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) onReturn();
  });
  window.addEventListener("offline", tell);
  window.addEventListener("online", () => {
    tell();
    onReturn();
  });
  tell();
  battery = await batteryOf(navigator);
  battery?.addEventListener("levelchange", tell);
  battery?.addEventListener("chargingchange", tell);
  tell();
}

/** The Battery Status API, which only some browsers have. */
async function batteryOf(navigator: Navigator & { getBattery?: () => Promise<Battery> }): Promise<Battery | null> {
  try {
    return (await navigator.getBattery?.()) ?? null;
  } catch {
    return null;
  }
}

/** The page's surroundings. */
export type Conditions = {
  hidden: boolean;
  online: boolean;
  /** Where the browser tells: charge from 0 to 1. */
  battery: { level: number; charging: boolean } | null;
};

/** Why a worker that is wanted rests. */
export type Pause = "hidden" | "low_battery" | "offline";

/** Below this charge a device that is not plugged in is left alone. */
const LOW_BATTERY = 0.2;

/** What keeps the worker from working, most lasting first; null for nothing. */
export function pauseOf({ hidden, online, battery }: Conditions, settings: PageSettings): Pause | null {
  if (settings.saveBattery && battery !== null && !battery.charging && battery.level < LOW_BATTERY) return "low_battery";
  if (hidden && !settings.workHidden) return "hidden";
  return online ? null : "offline";
}

/** Whether the worker should say goodbye for this. Without a network nobody would hear it, and the session comes back by itself. */
export function leavesFor(pause: Pause | null): boolean {
  return pause === "hidden" || pause === "low_battery";
}

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
