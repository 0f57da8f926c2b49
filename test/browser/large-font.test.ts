import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { commit, ended, get, post, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { BARE, CHROMIUM, launchChromium, newProfile, WITHOUT } from "./chromium.ts";
import { openPage, Tab, tabComplaints } from "./tab.ts";

/** Twice the font size that browsers have of themselves, which a person sets in the browser. */
const FONT_PX = 32;
/** A usual phone, and the narrowest width of WCAG 2.2 (1.4.10). */
const WIDTHS = [390, 320];
const KEY = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";

let browser: Browser;
let coordinator: CoordinatorHere;

describe.skipIf(CHROMIUM === undefined)(`a large default font on a phone, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
  });

  afterAll(() => expect(tabComplaints()).toEqual([]));

  async function isNarrow(page: Page, width: number): Promise<void> {
    expect(await page.evaluate(() => getComputedStyle(document.body).fontSize)).toBe(`${FONT_PX}px`);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    expect(await page.evaluate(wideParts)).toEqual([]);
  }

  it.each(WIDTHS)("no page of %i px scrolls sideways, and no part of it is wider than its card", async (width) => {
    const isNarrowHere = (page: Page) => isNarrow(page, width);
    const context = await newProfile(browser, BARE, { viewport: { width, height: 844 } });
    const open = async (path: string): Promise<Tab> => {
      const page = await openPage(context, `${coordinator.url}${path}`);
      const session = await context.newCDPSession(page);
      await session.send("Page.setFontSizes", { fontSizes: { standard: FONT_PX } });
      return new Tab(page);
    };
    const home = await open("/");
    await home.says("#no-worker", "No worker is online.");
    await isNarrowHere(home.page);
    await isNarrowHere((await open("/docs")).page);

    const worker = await open("/worker");
    await worker.filled("#words");
    await isNarrowHere(worker.page);
    await worker.press("Start");
    await worker.says("#state-title", "Ready", true);
    await ended(coordinator.url, await commit(coordinator.url, "cheap", task("The market reopened on Sunday.", "extract_json")));
    await worker.filled("#jobs .outcome");
    const { body } = await post(`${coordinator.url}/v1/trust/create`, { user_id: `wide-${width}` });
    await worker.page.getByLabel("Pairing code").fill(String(body.pairing_code));
    await worker.press("Pair");
    await worker.filled("#pairings");
    await worker.page.locator(".events summary").click();
    await isNarrowHere(worker.page);
    await worker.page.close();
    await until("no worker", async () => ((await get(`${coordinator.url}/v1/health`)).body.workers_online === 0 ? true : undefined));

    const pair = await open("/pair");
    await pair.press("Make one");
    await pair.press("Make a code");
    await pair.says("#code-result", "Waiting for a worker.");
    await isNarrowHere(pair.page);
    await pair.page.locator("#you summary").click();
    await post(`${coordinator.url}/v1/trust/claim`, { pairing_code: await pair.text("#big-code"), provider_pubkey: KEY });
    await pair.page.reload();
    await pair.says("#workers", KEY);
    await isNarrowHere(pair.page);
    await context.close();
  });
});

/** What is wider than the card that it is in, or than its parent there. Runs in the page. Code and tables scroll in a block of their own. */
function wideParts(): string[] {
  return [...document.querySelectorAll(".card, .card *, .field *")].flatMap((part) => {
    const parent = part.parentElement;
    if (parent === null || !part.checkVisibility() || part.closest(".unseen, svg, pre, .scroll") !== null) return [];
    const by = Math.round(part.getBoundingClientRect().right - parent.getBoundingClientRect().right);
    return by > 0 ? [`${part.tagName} #${part.id} .${part.classList.value} of ${parent.tagName} #${parent.id}: ${by} px`] : [];
  });
}
