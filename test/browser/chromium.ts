import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";
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

/** For the title of what is skipped without it. */
export const WITHOUT = CHROMIUM === undefined ? " (skipped: no Chromium here; apt-get install chromium, or CHROMIUM=path)" : "";

/** A headless Chromium, closed after the tests of this file. */
export async function launchChromium(): Promise<Browser> {
  const browser = await chromium.launch({
    ...(CHROMIUM !== undefined && { executablePath: CHROMIUM }),
    // Root has no sandbox to be in, and containers have a small /dev/shm.
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  finallyDo(() => browser.close());
  return browser;
}
