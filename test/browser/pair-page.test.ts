import type { Browser, BrowserContext } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { post } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { CHROMIUM, launchChromium, newProfile, WITHOUT } from "./chromium.ts";
import { openPage, Tab, tabComplaints } from "./tab.ts";

const KEY = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";

let browser: Browser;
let coordinator: CoordinatorHere;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`what the pair page shows in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
  });

  beforeEach(async () => {
    context = await newProfile(browser);
  });

  afterEach(() => context.close());

  afterAll(() => expect(tabComplaints()).toEqual([]));

  const open = async () => new Tab(await openPage(context, `${coordinator.url}/pair`));

  async function withCode(): Promise<{ tab: Tab; code: string }> {
    const tab = await open();
    await tab.press("Make one");
    await tab.press("Make a code");
    await tab.says("#code-result", "Waiting for a worker.");
    return { tab, code: await tab.text("#big-code") };
  }

  it("the code is copied as one line, by its selection and by buttons for code, link and command", async () => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const { tab, code } = await withCode();
    const copied = () => tab.page.evaluate(() => navigator.clipboard.readText());
    await tab.page.locator("#big-code").click();
    await tab.page.keyboard.press("ControlOrMeta+c");
    expect((await copied()).trimEnd()).toBe(code);
    for (const [name, text] of [
      ["Copy code", code],
      ["Copy link", `${coordinator.url}/worker?code=${code}`],
      ["Copy command", `npx compute-router worker pair ${code} --url ${coordinator.url}`],
    ] as const) {
      await tab.press(name);
      await tab.page.getByRole("button", { name: "Copied" }).waitFor();
      expect(await copied()).toBe(text);
      await tab.page.getByRole("button", { name }).waitFor();
    }
  });

  it("[TR2] a wrong token is said to be wrong, once and at its field, and the right one helps", async () => {
    await post(`${coordinator.url}/v1/trust/create`, { user_id: "has-a-token" }, { "x-user-token": "the-right-one" });
    const tab = await open();
    await tab.page.getByLabel("User id").fill("has-a-token");
    await tab.page.getByLabel("Protect it with a token").check();
    const token = tab.page.getByLabel("Token", { exact: true });
    await token.fill("a-wrong-one");
    const isRefused = async () => {
      await tab.says("#user-result", "This is not the token of this user id.", true);
      expect(await token.getAttribute("aria-invalid")).toBe("true");
      await tab.says("#no-workers", "The list needs the token of this user id.", true);
      expect(await tab.text("#code-result")).toBe("");
    };
    await tab.press("Use this");
    await isRefused();
    await tab.press("Make a code");
    await expect.poll(() => tab.page.evaluate(() => document.activeElement?.id)).toBe("user-token");
    await isRefused();
    await tab.page.reload();
    await isRefused();
    await token.fill("the-right-one");
    await tab.press("Use this");
    await tab.says("#no-workers", "None yet");
    expect(await tab.text("#user-result")).toBe("In use, and stored in this browser.");
  });

  it("[TR3] an outage is shown while the page waits, and its messages end with it", async () => {
    await context.clock.install();
    const { tab, code } = await withCode();
    const poll = () => context.clock.fastForward("00:11");
    const path = "**/v1/trust/**";
    await context.route(path, (route) => route.abort());
    await poll();
    await tab.says("#code-result", "The coordinator does not answer. The code stays valid.", true);
    await tab.press("Refresh");
    await tab.says("#no-workers", "No answer from the coordinator.");
    await context.unroute(path);
    await poll();
    await tab.says("#code-result", "Waiting for a worker.", true);
    await tab.says("#no-workers", "None yet");

    await context.route(path, (route) => route.abort());
    await tab.press("Make another code");
    await tab.says("#code-result", "No answer from the coordinator.");
    await poll();
    await context.unroute(path);
    await poll();
    await tab.says("#code-result", "Waiting for a worker.", true);
    expect(await tab.text("#big-code")).toBe(code);

    // A refusal of another code is no outage, so it stays.
    await context.route("**/v1/trust/create", (route) => route.fulfill({ status: 429, json: { error: "rate_limited" }, headers: { "retry-after": "600" } }));
    await tab.press("Make another code");
    await tab.says("#code-result", "Too many requests, or five codes are already open.");
    const polled = tab.page.waitForResponse(/trust\/list/);
    await poll();
    await polled;
    expect(await tab.text("#code-result")).toContain("five codes are already open");
  });

  it("[TR3] without a code an outage is said until something is answered, whatever was asked", async () => {
    const tab = await open();
    await tab.press("Make one");
    await tab.says("#no-workers", "None yet");
    const path = "**/v1/trust/**";
    const isSilent = async () => {
      await context.route(path, (route) => route.abort());
      await tab.press("Refresh");
      await tab.says("#no-workers", "No answer from the coordinator.");
    };
    await isSilent();
    await tab.press("Make a code");
    await tab.says("#code-result", "No answer from the coordinator.");
    await context.unroute(path);
    await tab.press("Refresh");
    await tab.says("#no-workers", "None yet");
    await until("no error of the code", async () => ((await tab.text("#code-result")) === "" ? true : undefined));
    await isSilent();
    await context.unroute(path);
    await tab.press("Make a code");
    await tab.says("#code-result", "Waiting for a worker.", true);
    await tab.says("#no-workers", "None yet");
  });

  it("[TR3] an earlier code stays valid, which the page says, and its worker is listed when a person returns to the page, but not asked for at each return", async () => {
    await context.clock.install();
    const { tab, code } = await withCode();
    const earlier = "An earlier code stays valid until it is used or its hour is over.";
    expect(await tab.text("#earlier-code")).toBe("");
    await context.clock.fastForward("00:10:00");
    await tab.press("Make another code");
    await tab.says("#earlier-code", earlier, true);
    await tab.page.reload();
    await tab.says("#earlier-code", earlier, true);
    await context.clock.fastForward("00:51:00");
    await until("the end of its hour", async () => ((await tab.text("#earlier-code")) === "" ? true : undefined));
    expect(await tab.text("#time-left")).toMatch(/^0[89]:/);
    // Without a code the page asks of itself for nothing.
    await tab.page.evaluate(() => sessionStorage.clear());
    await context.clock.pauseAt(await tab.page.evaluate(() => Date.now() + 1_000));
    await tab.page.reload();
    await tab.says("#no-workers", "None yet");
    await post(`${coordinator.url}/v1/trust/claim`, { pairing_code: code, provider_pubkey: KEY });
    let lists = 0;
    tab.page.on("request", (request) => (lists += request.url().includes("/v1/trust/list") ? 1 : 0));
    const comeBack = () => tab.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await comeBack();
    await context.clock.fastForward("00:06");
    await comeBack();
    await comeBack();
    await tab.says("#workers", KEY);
    expect(lists).toBe(1);
  });

  it("without JavaScript it shows only that it needs JavaScript", async () => {
    const bare = await newProfile(browser, { javaScriptEnabled: false });
    const { page } = new Tab(await openPage(bare, `${coordinator.url}/pair`));
    expect((await page.locator("main").innerText()).trim()).toBe("This page runs in your browser, so it needs JavaScript.");
    expect(await page.locator("button:visible, .chip:visible").count()).toBe(0);
    await bare.close();
  });
});
