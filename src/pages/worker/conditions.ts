// When this page may take jobs: the owner's choices, the conditions that it watches (visibility, network, battery), the pause that both ask for, a screen that
// stays on, and the lock that makes one tab the worker.

const SETTINGS_KEY = "compute-router-worker";

/** The owner's choices. They are stored between visits. */
export type PageSettings = {
  /** True if the worker was started and not stopped; the next visit then continues. */
  wanted: boolean;
  keepScreenOn: boolean;
  /** Take jobs while the page is hidden, if the browser allows it. */
  workHidden: boolean;
  /** Rest below 20 % while not charging. */
  saveBattery: boolean;
};

/** The default settings. The browser of a phone stops hidden pages within seconds, so work in the background is off there. */
export function defaultSettings(isPhone: boolean): PageSettings {
  return { wanted: false, keepScreenOn: true, workHidden: !isPhone, saveBattery: true };
}

/** The storage of the settings; null if the browser forbids it. */
export type SettingsStore = Pick<Storage, "getItem" | "setItem"> | null;

/** Reads the settings. Missing or malformed values get their defaults. */
export function readSettings(storage: Pick<Storage, "getItem"> | null, defaults: PageSettings): PageSettings {
  let stored: unknown = null;
  try {
    stored = JSON.parse(storage?.getItem(SETTINGS_KEY) ?? "null");
  } catch {
    // Text of another program, or a browser that forbids storage.
  }
  const settings = { ...defaults };
  if (typeof stored !== "object" || stored === null) return settings;
  const names: (keyof PageSettings)[] = ["wanted", "keepScreenOn", "workHidden", "saveBattery"];
  const values = new Map(Object.entries(stored));
  for (const name of names) {
    const value: unknown = values.get(name);
    if (typeof value === "boolean") settings[name] = value;
  }
  return settings;
}

/** Stores the settings, if the browser allows it. */
export function writeSettings(storage: Pick<Storage, "setItem"> | null, settings: PageSettings): void {
  try {
    storage?.setItem(SETTINGS_KEY, JSON.stringify(settings));
  } catch {
    // The storage is full or forbidden. The settings last until the page is closed.
  }
}

/** The conditions of the page. */
export type Conditions = {
  hidden: boolean;
  online: boolean;
  /** The charge from 0 to 1; null if the browser does not state it. */
  battery: { level: number; charging: boolean } | null;
};

/** Why a started worker pauses. */
export type Pause = "hidden" | "low_battery" | "offline";

/** Below this charge a device that is not charging does not work. */
const LOW_BATTERY = 0.2;

type Battery = EventTarget & { readonly level: number; readonly charging: boolean };

/** Watches these conditions and reports each change. `onReturn` is called when the page or the network is back. */
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

/** Why the worker must rest, the most lasting reason first; null if it need not. */
export function pauseOf({ hidden, online, battery }: Conditions, settings: PageSettings): Pause | null {
  if (settings.saveBattery && battery !== null && !battery.charging && battery.level < LOW_BATTERY) return "low_battery";
  if (hidden && !settings.workHidden) return "hidden";
  return online ? null : "offline";
}

/** True if the worker should leave the coordinator. Without a network it cannot, and the session reconnects automatically. */
export function leavesFor(pause: Pause | null): boolean {
  return pause === "hidden" || pause === "low_battery";
}

/** The state of keeping the screen on. */
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

  /** Requests or releases the lock. The system releases it when the page is hidden, so call this again when the page is visible. */
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
      // The page is hidden at this moment, or the system saves power.
      this.#onState("refused");
    } finally {
      this.#asking = false;
    }
    if (!this.#wanted) await this.#sentinel?.release();
  }
}

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
