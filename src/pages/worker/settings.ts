import type { EngineMessage, PageMessage } from "../../worker/browser/report.ts";

const KEY = "compute-router-worker";

/** What the owner has chosen; kept between visits. */
export type PageSettings = {
  /** The worker was started and not stopped: the next visit goes on. */
  wanted: boolean;
  keepScreenOn: boolean;
  /** Take jobs while the page is hidden, where the browser lets it. */
  workHidden: boolean;
  /** Rest below 20 % while not charging. */
  saveBattery: boolean;
};

/** A phone's browser stops hidden pages within seconds: not promised there unless the owner wants it. */
export function defaultSettings(isPhone: boolean): PageSettings {
  return { wanted: false, keepScreenOn: true, workHidden: !isPhone, saveBattery: true };
}

/** Reads the settings; whatever is missing or unreadable is as by default. */
export function readSettings(storage: Pick<Storage, "getItem"> | null, defaults: PageSettings): PageSettings {
  let stored: unknown = null;
  try {
    stored = JSON.parse(storage?.getItem(KEY) ?? "null");
  } catch {
    // Somebody else's text, or a browser that forbids storage.
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

/** Keeps the settings; a browser that forbids it forgets them. */
export function writeSettings(storage: Pick<Storage, "setItem"> | null, settings: PageSettings): void {
  try {
    storage?.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Full or forbidden: they hold until the page is closed.
  }
}

/** How long an engine that is told to stop may take to say goodbye. */
const GOODBYE_MS = 1_000;

/** The engine in its own thread: its timers go on where those of a hidden page are held back. */
export class EngineLink {
  readonly #thread: Worker;

  constructor(url: string, onMessage: (message: EngineMessage) => void) {
    this.#thread = new Worker(url, { name: "engine" });
    this.#thread.addEventListener("message", ({ data }: MessageEvent<EngineMessage>) => onMessage(data));
    this.#thread.addEventListener("error", () =>
      onMessage({ type: "broken", message: "The worker's program could not be loaded or has crashed. Reload the page." }),
    );
  }

  send(message: PageMessage): void {
    this.#thread.postMessage(message);
  }

  /** Stops the work and ends the thread. */
  close(): void {
    this.send({ type: "stop" });
    setTimeout(() => this.#thread.terminate(), GOODBYE_MS);
  }
}
