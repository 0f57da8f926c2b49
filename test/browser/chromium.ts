// Finds and starts the Chromium of the browser tests: one for all files of a process.
import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type LaunchOptions } from "playwright-core";
import { finallyDo } from "../support/finally.ts";

const PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/** The program of this machine's Chromium or Chrome; `CHROMIUM` names another one. */
export const CHROMIUM: string | undefined = [process.env["CHROMIUM"], ...PLACES].find((place) => place !== undefined && existsSync(place));

/** The same engine without the windows around it, which takes two thirds of the CPU; null where it is not installed, or where `CHROMIUM` names the program. */
const SHELL = process.env["CHROMIUM"] === undefined ? (["/usr/bin/chromium-headless-shell"].find((place) => existsSync(place)) ?? null) : null;

/** For the title of what is skipped without it. */
export const WITHOUT = CHROMIUM === undefined ? " (skipped: no Chromium here; apt-get install chromium, or CHROMIUM=path)" : "";

/** What is off: the popups of the address bar, which no test sees, are pages that cost each browser context a second of CPU. */
const DISABLED = ["SpareRendererForSitePerProcess", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"];
/** Playwright's own list, of what could matter here: Chromium takes the last list that it is given, and only that one. */
const DISABLED_BY_PLAYWRIGHT = [
  "AvoidUnnecessaryBeforeUnloadCheckSync",
  "DestroyProfileOnBrowserClose",
  "HttpsUpgrades",
  "HttpsFirstBalancedModeAutoEnable",
].concat(["LensOverlay", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"]);

/** How a whole Chromium is started. */
const OPTIONS: LaunchOptions = {
  ...(CHROMIUM !== undefined && { executablePath: CHROMIUM }),
  // Root has no sandbox to be in, and containers have a small /dev/shm.
  args: ["--no-sandbox", "--disable-dev-shm-usage", `--disable-features=${[...DISABLED_BY_PLAYWRIGHT, ...DISABLED].join(",")}`],
};

let chromiumOfProcess: Promise<Browser> | null = null;

/** A headless Chromium for all files that this process runs, one after the other. It ends with the process; its tabs are closed after each file. */
export async function launchChromium(): Promise<Browser> {
  const browser = await (chromiumOfProcess ??= chromium.launch(SHELL === null ? OPTIONS : { ...OPTIONS, executablePath: SHELL }));
  finallyDo(() => Promise.all(browser.contexts().map((context) => context.close())));
  return browser;
}

/** How a profile differs from a person's, unless a test says otherwise: no animation, which would be drawn without a GPU for as long as the page is open. */
const PROFILE: BrowserContextOptions = { reducedMotion: "reduce" };
/** For tests of pages that have no service worker, or whose service worker is no part of them: to install one costs half a second of CPU. */
export const BARE: BrowserContextOptions = { serviceWorkers: "block" };
/** The narrowest phone that is promised. */
export const PHONE: BrowserContextOptions = { viewport: { width: 360, height: 740 } };

/** A profile of its own in this Chromium: storage, permissions, settings. */
export function newProfile(browser: Browser, ...options: BrowserContextOptions[]): Promise<BrowserContext> {
  return browser.newContext(Object.assign({}, PROFILE, ...options));
}

/**
 * A profile as a person has it: on disk, in a Chromium of its own that is closed after the file. It has what the engine alone does not have: the settings of
 * sites, and apps that can be installed.
 */
export async function launchWholeChromium(folder: string): Promise<BrowserContext> {
  const context = await chromium.launchPersistentContext(folder, { ...OPTIONS, ...PROFILE });
  finallyDo(() => context.close());
  return context;
}
