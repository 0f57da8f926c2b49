const KEY = "compute-router-worker";

/** What the owner has chosen; kept between visits. */
export type Settings = {
  /** The worker was started and not stopped: the next visit goes on. */
  wanted: boolean;
  keepScreenOn: boolean;
  /** Take jobs while the page is hidden, where the browser lets it. */
  workHidden: boolean;
  /** Rest below 20 % while not charging. */
  saveBattery: boolean;
};

/** A phone's browser stops hidden pages within seconds: not promised there unless the owner wants it. */
export function defaultSettings(isPhone: boolean): Settings {
  return { wanted: false, keepScreenOn: true, workHidden: !isPhone, saveBattery: true };
}

/** Reads the settings; whatever is missing or unreadable is as by default. */
export function readSettings(storage: Pick<Storage, "getItem"> | null, defaults: Settings): Settings {
  let stored: unknown = null;
  try {
    stored = JSON.parse(storage?.getItem(KEY) ?? "null");
  } catch {
    // Somebody else's text, or a browser that forbids storage.
  }
  const settings = { ...defaults };
  if (typeof stored !== "object" || stored === null) return settings;
  const names: (keyof Settings)[] = ["wanted", "keepScreenOn", "workHidden", "saveBattery"];
  const values = new Map(Object.entries(stored));
  for (const name of names) {
    const value: unknown = values.get(name);
    if (typeof value === "boolean") settings[name] = value;
  }
  return settings;
}

/** Keeps the settings; a browser that forbids it forgets them. */
export function writeSettings(storage: Pick<Storage, "setItem"> | null, settings: Settings): void {
  try {
    storage?.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Full or forbidden: they hold until the page is closed.
  }
}
