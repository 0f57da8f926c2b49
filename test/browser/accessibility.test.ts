import type { Browser, BrowserContext } from "playwright-core";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { commit, post, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { BARE, CHROMIUM, launchChromium, newProfile, PHONE, WITHOUT } from "./chromium.ts";
import { findingsInBoth, tabOrder } from "./findings.ts";
import { WorkerTab } from "./worker-tab.ts";

/** The narrowest phone that is promised, and the widest zoom on it that WCAG 1.4.10 asks for. */
const WIDTHS = [360, 320];

let browser: Browser;
let coordinator: CoordinatorHere;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`accessibility of the worker page${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
  });

  afterEach(() => context.close());

  async function open(): Promise<WorkerTab> {
    context = await newProfile(browser, PHONE, BARE);
    const tab = await WorkerTab.open(context, `${coordinator.url}/worker`);
    await tab.key();
    return tab;
  }

  it("axe finds nothing wrong in light and dark: off, ready with jobs and pairings, paused, in a second tab", async () => {
    const tab = await open();
    expect(await findingsInBoth(tab.page)).toEqual([]);

    await tab.press("Start");
    await tab.shows("Ready");
    await commit(coordinator.url, "cheap", task("What a lovely day.", "classify"));
    await tab.says("#jobs", "Accepted");
    const { body } = await post(`${coordinator.url}/v1/trust/create`, { user_id: "axe" });
    await tab.page.getByLabel("Pairing code").fill(String(body.pairing_code));
    await tab.press("Pair");
    await tab.says("#pair-result", "Paired.");
    await tab.page.getByRole("heading", { name: "Events" }).click();
    expect(await findingsInBoth(tab.page)).toEqual([]);
    for (const width of WIDTHS) {
      await tab.page.setViewportSize({ width, height: 740 });
      expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    }

    await context.setOffline(true);
    await tab.shows("Paused");
    expect(await findingsInBoth(tab.page)).toEqual([]);
    await context.setOffline(false);

    const second = await WorkerTab.open(context, `${coordinator.url}/worker`);
    await second.says("#other-title", "Another tab runs this worker");
    expect(await findingsInBoth(second.page)).toEqual([]);
  });

  it("every control is reached and used by keyboard, in reading order, with a visible focus", async () => {
    const { page } = await open();
    const names = await tabOrder(page);
    expect(names).toEqual([
      "Skip to content",
      "Start",
      "Pairing code",
      "Pair",
      "Copy",
      "Keep the screen on",
      "Work while the page is hidden",
      ...(names.includes("Pause when the battery is low") ? ["Pause when the battery is low"] : []),
      "Events",
      "Home",
      "Pair a worker",
      "API",
    ]);
    await page.getByRole("button", { name: "Start" }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByRole("button", { name: "Stop" }).isVisible()).toBe(true);
  });

  it("the focus is never lost: after a pairing, after the list was deleted, in a tab that takes over and in the one that has lost", async () => {
    const tab = await open();
    const hasFocus = (at: WorkerTab, id: string) =>
      until(`the focus on ${id}`, async () => (await at.page.evaluate(() => document.activeElement?.id)) === id || undefined);
    const pressed = async (at: WorkerTab, name: string) => {
      await at.page.getByRole("button", { name, exact: true }).focus();
      await at.page.keyboard.press("Enter");
    };
    const { body } = await post(`${coordinator.url}/v1/trust/create`, { user_id: "keyboard" });
    await tab.page.getByLabel("Pairing code").fill(String(body.pairing_code));
    await pressed(tab, "Pair");
    await tab.says("#pair-result", "Paired.");
    await hasFocus(tab, "pair");

    await pressed(tab, "Start");
    await tab.shows("Ready");
    await hasFocus(tab, "act");
    await commit(coordinator.url, "cheap", task("What a lovely day.", "classify"));
    await tab.says("#jobs", "Accepted");
    tab.page.on("dialog", (dialog) => void dialog.accept());
    await pressed(tab, "Clear");
    await tab.says("#no-jobs", "No job yet");
    await hasFocus(tab, "history");

    const second = await WorkerTab.open(context, `${coordinator.url}/worker`);
    await pressed(second, "Take over here");
    await second.shows("Ready");
    await hasFocus(second, "main");
    await hasFocus(tab, "main");
  });

  it("a screen reader announces the state, and not every second or job", async () => {
    const tab = await open();
    await tab.press("Start");
    await tab.shows("Ready");
    await tab.says("#live", "Ready for jobs.", true);
    const told = await tab.page.evaluateHandle(() => {
      const changes: (string | null)[] = [];
      const live = document.querySelector("#live");
      if (live !== null) new MutationObserver(() => changes.push(live.textContent)).observe(live, { childList: true, characterData: true, subtree: true });
      return changes;
    });
    await commit(coordinator.url, "cheap", task("Fine.", "classify"));
    await tab.says("#fact-accepted", "1");
    expect(await told.jsonValue()).toEqual([]);
  });
});
