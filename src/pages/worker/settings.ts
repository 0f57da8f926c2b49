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
