import type { Browser, BrowserContext } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { post } from "../support/rest.ts";
import { BARE, CHROMIUM, launchChromium, newProfile, WITHOUT } from "./chromium.ts";
import { tabComplaints } from "./tab.ts";
import { WorkerTab } from "./worker-tab.ts";

/** A phone that is held upright. */
const UPRIGHT = { viewport: { width: 390, height: 844 } };

let browser: Browser;
let coordinator: CoordinatorHere;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`the pairing code on the worker page in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
  });

  beforeEach(async () => {
    context = await newProfile(browser, BARE, UPRIGHT);
  });

  afterEach(() => context.close());

  afterAll(() => expect(tabComplaints()).toEqual([]));

  const open = (query = "") => WorkerTab.open(context, `${coordinator.url}/worker${query}`);

  async function newCode(): Promise<string> {
    const { body } = await post(`${coordinator.url}/v1/trust/create`, { user_id: "owner-of-a-phone" });
    return String(body.pairing_code);
  }

  it("[JB8] a worker that is off says after its pairing that Start must be pressed, and not any more when it is on", async () => {
    const tab = await open(`?code=${await newCode()}`);
    await tab.key();
    await tab.press("Pair");
    await tab.says("#pair-result", "Paired. This worker is off: press Start");
    await tab.press("Start");
    await tab.says("#pair-result", "Paired. This worker may now do that user's PRIVATE jobs.");
    await tab.press("Stop");
    await tab.says("#pair-result", "Paired. This worker is off: press Start");
  });

  it("[WS7] a second tab that a pairing link opens names its code, until the code was sent", async () => {
    const first = await open();
    await first.key();
    const code = await newCode();
    const second = await open(`?code=${code}`);
    await second.says("#other-title", "Another tab runs this worker");
    await second.says("#other-detail", `Take over here to use the pairing code ${code}.`);
    await second.press("Take over here");
    await second.key();
    expect(await second.page.inputValue("#code")).toBe(code);
    await second.press("Pair");
    await second.says("#pair-result", "Paired.");
    await first.press("Take over here");
    await second.says("#other-title", "Another tab has taken over");
    expect(await second.text("#other-detail")).not.toContain(code);
  });

  it("the caret stays where a person corrects the code, and a letter that no code has is explained", async () => {
    const tab = await open("?code=3AFFAC");
    await tab.key();
    const { keyboard } = tab.page;
    await tab.page.locator("#code").evaluate((field: HTMLInputElement) => field.setSelectionRange(2, 2));
    await keyboard.press("Delete");
    await keyboard.type("b");
    expect(await tab.page.inputValue("#code")).toBe("3ABFAC");
    await keyboard.type("g");
    await tab.says("#pair-result", "A code has only 0 to 9 and A to F.", true);
    await keyboard.press("Backspace");
    await keyboard.type("0");
    expect(await tab.page.inputValue("#code")).toBe("3A0FAC");
    expect(await tab.text("#pair-result")).toBe("");
  });

  it("a pairing link shows its code in the middle of the screen of a phone", async () => {
    const tab = await open("?code=3AFFAC");
    await tab.key();
    const middle = () =>
      tab.page.evaluate(() => {
        const { top, bottom } = document.querySelector("#code")?.getBoundingClientRect() ?? { top: 0, bottom: 0 };
        return (top + bottom) / 2 / innerHeight;
      });
    await expect.poll(middle).toBeLessThan(0.75);
    expect(await middle()).toBeGreaterThan(0.25);
    expect(await tab.page.evaluate(() => document.activeElement?.id)).toBe("code");
  });
});
