import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { launchCoordinator, shareCoordinator } from "../support/coordinator.ts";
import { CHROMIUM, launchChromium, newProfile, PHONE, WITHOUT } from "./chromium.ts";
import { findingsInBoth, tabOrder } from "./findings.ts";
import { askedOrigins, openPage, Tab, tabComplaints } from "./tab.ts";
import { WorkerTab } from "./worker-tab.ts";

/** The narrowest phone that is promised, and the widest zoom on it that WCAG 1.4.10 asks for. */
const WIDTHS = [360, 320];

const run = promisify(execFile);

let browser: Browser;
let free: CoordinatorHere;
let paid: CoordinatorHere;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`the home page, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, free, paid] = await Promise.all([
      launchChromium(),
      shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" }),
      launchCoordinator("evm", { TESTNET_MODE: "false", EVM_FACILITATOR: "http://127.0.0.1:9" }),
    ]);
  });

  afterAll(() => {
    expect(tabComplaints()).toEqual([]);
    expect(askedOrigins().toSorted()).toEqual([free.url, paid.url].toSorted());
  });

  async function open(where: CoordinatorHere, options: Parameters<Browser["newContext"]>[0] = {}): Promise<Tab> {
    const opened = await newProfile(browser, PHONE, options);
    onTestFinished(() => opened.close());
    context = opened;
    return new Tab(await openPage(context, where.url));
  }

  /** What the page's command prints when a shell runs it as it is copied. */
  async function pasted(tab: Tab): Promise<unknown> {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await tab.press("Copy");
    await tab.says("#copy", "Copied");
    const command = await tab.page.evaluate(() => navigator.clipboard.readText());
    expect(command).toBe(await tab.page.locator("#command").innerText());
    return JSON.parse((await run("sh", ["-c", command])).stdout);
  }

  it("[API1] shows the present number of workers, and its command runs a job in a shell", async () => {
    const tab = await open(free);
    await tab.says("#workers", "0", true);
    await tab.says("#no-worker", "No worker is online.");

    const worker = await WorkerTab.open(context, `${free.url}/worker`);
    await worker.press("Start");
    await worker.shows("Ready");
    await tab.says("#workers", "1", true);
    expect(await tab.text("#no-worker")).toBe("");
    expect(await pasted(tab)).toMatchObject({
      job: { status: "completed", result: { sentiment: "positive" }, receipt: { provider_pubkey: await worker.key() } },
    });

    await worker.page.close();
    await tab.says("#workers", "0", true);
  });

  it("[PY1] says that its command gets a 402 where jobs are paid, and the command does", async () => {
    const tab = await open(paid);
    expect(await tab.text("#main")).toContain("The answer is 402");
    expect(await pasted(tab)).toMatchObject({ accepts: [{ scheme: "exact", price: "$0.001" }] });
    await tab.page.getByRole("link", { name: "how to pay" }).click();
    const form = tab.page.locator("#commitCheap form");
    await form.getByRole("button", { name: "Send" }).click();
    await tab.says("#commitCheap form [role=status]", "402 Payment Required");
    expect(JSON.parse(await form.getByLabel("Response", { exact: true }).innerText())).toMatchObject({ accepts: [{ scheme: "exact", price: "$0.001" }] });
  });

  it("says when the coordinator does not answer, and shows the number again when it does", async () => {
    const tab = await open(free);
    // A page that becomes visible looks at once.
    const look = () => tab.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await tab.says("#workers", "0", true);
    await context.setOffline(true);
    await look();
    await tab.says("#trouble", "does not answer");
    expect(await tab.text("#workers")).toBe("–");
    await context.setOffline(false);
    await look();
    await tab.says("#workers", "0", true);
    expect(await tab.text("#trouble")).toBe("");
  });

  it("shows its command without JavaScript", async () => {
    const tab = await open(free, { javaScriptEnabled: false });
    expect(await tab.page.locator("#command").innerText()).toContain(`curl -s ${free.url}/v1/jobs/commit/cheap`);
    expect(await tab.text("noscript")).toContain("/v1/health");
  });

  it("axe finds nothing wrong in light and dark, and nothing is wider than a narrow phone", async () => {
    for (const where of [free, paid]) {
      const tab = await open(where);
      await tab.says("#no-worker", "No worker is online.");
      expect(await findingsInBoth(tab.page)).toEqual([]);
      for (const width of WIDTHS) {
        await tab.page.setViewportSize({ width, height: 740 });
        expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      }
    }
  });

  it("every link and button is reached by keyboard, in reading order, with a visible focus", async () => {
    const tab = await open(free);
    await tab.says("#no-worker", "No worker is online.");
    const links = ["/v1/chat/completions", "/v1/models", "/docs", "/llms.txt", "/openapi.json", "/worker", "/pair"];
    expect(await tabOrder(tab.page)).toEqual(["Skip to content", "/worker", "Copy", ...links]);
  });

  describe("what a browser says of a page", () => {
    const said: string[] = [];
    let page: Page;

    // One tab for all: each would cost a second of CPU.
    beforeAll(async () => {
      context = await newProfile(browser);
      page = await context.newPage();
      page.on("console", (message) => said.push(message.text()));
      page.on("response", (response) => response.status() >= 400 && said.push(`${response.status()} ${response.url()}`));
      page.on("requestfailed", (request) => said.push(`failed ${request.url()}`));
    });

    it.each(["/", "/docs", "/worker", "/pair", "/openapi.json", "/v1/health"])(
      "[API8] %s loads without a message in the console or a failed request, its icon included",
      async (path) => {
        said.length = 0;
        await page.goto(`${free.url}${path}`, { waitUntil: "networkidle" });
        // Headless Chromium draws no icon, so it is loaded as the tab's title bar would, under the page's own policy.
        const icon = (await page.locator("link[rel=icon]").count()) === 0 ? "/favicon.ico" : await page.locator("link[rel=icon]").getAttribute("href");
        const width = await page.evaluate(async (src) => {
          const image = document.createElement("img");
          image.src = src;
          await image.decode().catch(() => undefined);
          return image.naturalWidth;
        }, icon ?? "");
        expect(width).toBeGreaterThan(0);
        expect(said).toEqual([]);
      },
    );
  });
});
