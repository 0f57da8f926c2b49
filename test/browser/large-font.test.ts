import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { post } from "../support/rest.ts";
import { BARE, CHROMIUM, launchChromium, newProfile, WITHOUT } from "./chromium.ts";
import { openPage, Tab, tabComplaints } from "./tab.ts";

/** Twice the font size that browsers have of themselves, which a person sets in the browser. */
const FONT_PX = 32;
const WIDTH = 390;
const KEY = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";

let browser: Browser;
let coordinator: CoordinatorHere;

describe.skipIf(CHROMIUM === undefined)(`a large default font on a phone, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
  });

  afterAll(() => expect(tabComplaints()).toEqual([]));

  async function isNarrow(page: Page): Promise<void> {
    expect(await page.evaluate(() => getComputedStyle(document.body).fontSize)).toBe(`${FONT_PX}px`);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(WIDTH);
  }

  it("no page scrolls sideways", async () => {
    const context = await newProfile(browser, BARE, { viewport: { width: WIDTH, height: 844 } });
    const open = async (path: string): Promise<Tab> => {
      const page = await openPage(context, `${coordinator.url}${path}`);
      const session = await context.newCDPSession(page);
      await session.send("Page.setFontSizes", { fontSizes: { standard: FONT_PX } });
      return new Tab(page);
    };
    const home = await open("/");
    await home.says("#no-worker", "No worker is online.");
    await isNarrow(home.page);
    await isNarrow((await open("/docs")).page);

    const worker = await open("/worker");
    await worker.filled("#words");
    await isNarrow(worker.page);

    const pair = await open("/pair");
    await pair.press("Make one");
    await pair.press("Make a code");
    await pair.says("#code-result", "Waiting for a worker.");
    await isNarrow(pair.page);
    await pair.page.locator("#you summary").click();
    await post(`${coordinator.url}/v1/trust/claim`, { pairing_code: await pair.text("#big-code"), provider_pubkey: KEY });
    await pair.page.reload();
    await pair.says("#workers", KEY);
    await isNarrow(pair.page);
    await context.close();
  });
});
