import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { launchCoordinator } from "../support/coordinator.ts";
import { CHROMIUM, launchChromium, newProfile, PHONE, WITHOUT } from "./chromium.ts";
import { findingsInBoth } from "./findings.ts";
import { askedOrigins, openPage, tabComplaints } from "./tab.ts";

/** The narrowest phone that is promised, and the widest zoom on it that WCAG 1.4.10 asks for. */
const WIDTHS = [360, 320];

let browser: Browser;
let coordinator: CoordinatorHere;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`the page of the API, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), launchCoordinator("svm")]);
  });

  afterEach(() => context.close());

  afterAll(() => {
    expect(tabComplaints()).toEqual([]);
    // What the forms ask and what the page loads: nothing else than the instance that served it.
    expect(askedOrigins()).toEqual([coordinator.url]);
  });

  async function open(options: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> {
    context = await newProfile(browser, PHONE, options);
    return await openPage(context, `${coordinator.url}/docs`);
  }

  /** Presses Send in the form of an operation; gives the heading and the text of the answer. */
  async function send(page: Page, operation: string, heading: RegExp): Promise<{ heading: string; text: string }> {
    const form = page.locator(`#${operation} form`);
    await form.getByRole("button", { name: "Send" }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toMatch(heading);
    await expect.poll(() => form.getByRole("button").innerText()).toBe("Send");
    return { heading: await form.getByRole("status").innerText(), text: await form.getByLabel("Response", { exact: true }).innerText() };
  }

  /** Sends a commit that waits for no worker: here is none. */
  async function sendCommit(page: Page, operation: string): Promise<string> {
    const wait = page.locator(`#${operation} input[name=Prefer]`);
    expect(await wait.inputValue()).toBe("wait=10");
    await wait.fill("");
    return (await send(page, operation, /^201 Created, \d+ ms$/)).text;
  }

  it("[API8] sends a commit to the instance that served it and shows the answer, and then polls that job", async () => {
    const page = await open();
    const user = /"user_id": "(user-[0-9a-f]{20})"/.exec(await page.getByLabel("Body JSON").nth(1).inputValue())?.[1];
    const { job_id: id } = JSON.parse(await sendCommit(page, "commitCheap")) as { job_id: string };
    expect(await page.locator("#commitCheap form details").innerText()).toContain("Headers");

    expect(await page.locator("#getModel input[name=id]").inputValue()).toBe("llama3.2:latest");
    const job = await send(page, "getJob", /^200 OK/);
    expect(JSON.parse(job.text)).toMatchObject({ id, status: "pending" });
    const own = await fetch(`${coordinator.url}/v1/jobs/${id}`);
    expect(await own.json()).toMatchObject({ id });
    const cancelled = await send(page, "cancelJob", /^200 OK/);
    expect(JSON.parse(cancelled.text)).toMatchObject({ id, result: { error: "cancelled" } });

    // The user id of the examples is public, so each visit has its own.
    expect(user).toMatch(/^user-/);
    await page.reload();
    expect(await page.getByLabel("Body JSON").nth(1).inputValue()).not.toContain(user ?? "");
  });

  it("[API8] sends query, headers and another example, and leaves out what is empty", async () => {
    const page = await open();
    await page.locator("#getQuote select[name=policy]").selectOption("CHEAP");
    expect(JSON.parse((await send(page, "getQuote", /^200/)).text)).toMatchObject({ policy_resolved: "CHEAP" });

    await page.locator("#commitFast select.examples").selectOption("llm");
    expect(Object.keys(JSON.parse(await sendCommit(page, "commitFast")))).toEqual(["job_id"]);
    await page.locator("#commitFast select.examples").selectOption("private");
    await page.locator("#commitFast input[name=Idempotency-Key]").fill("one");
    const refused = await send(page, "commitFast", /^422/);
    expect(JSON.parse(refused.text)).toMatchObject({ error: "no_trusted_worker" });
    await page.locator("#commitFast textarea").fill("{");
    expect((await send(page, "commitFast", /^400/)).text).toContain('"error"');
  });

  it("[API8] shows an event stream as it comes, and Stop ends it", async () => {
    const page = await open();
    await sendCommit(page, "commitCheap");
    const form = page.locator("#followJob form");
    await form.getByRole("button", { name: "Send" }).click();
    await expect.poll(() => form.getByLabel("Response", { exact: true }).innerText()).toContain("pending");
    await form.getByRole("button", { name: "Stop" }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toMatch(/^Stopped after \d+ ms\.$/);
  });

  it("[API8] says that there is no response when the network is down", async () => {
    const page = await open();
    await context.setOffline(true);
    const form = page.locator("#commitCheap form");
    await form.getByRole("button", { name: "Send" }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toMatch(/^No response: /);
  });

  it("[API8] shows everything but the forms without JavaScript", async () => {
    const page = await open({ javaScriptEnabled: false });
    expect(await page.locator("#commitCheap h3").isVisible()).toBe(true);
    expect(await page.locator("#commitCheap pre:visible").first().innerText()).toContain('curl "$BASE_URL/v1/jobs/commit/cheap"');
    await page.locator("nav summary").click();
    expect(await page.locator("nav").getByRole("link", { name: "/v1/health" }).isVisible()).toBe(true);
    expect(await page.locator("form:visible").count()).toBe(0);
    expect(await page.locator("noscript").innerText()).toContain("need JavaScript");
  });

  it("[API8] on a phone the text comes first: the list of contents is folded, and no table scrolls sideways; on a wide screen the list stands beside the text", async () => {
    const page = await open({ viewport: { width: 390, height: 844 } });
    const model = page.locator("nav").locator('a[href="#listModels"]');
    const top = await page.locator("h1").evaluate((heading) => heading.getBoundingClientRect().bottom);
    expect(top).toBeLessThan(300);
    expect(await model.isVisible()).toBe(false);
    await page.locator("nav summary").click();
    expect(await model.isVisible()).toBe(true);
    const scrolling = await page.locator(".scroll").evaluateAll((tables) => tables.filter((table) => table.scrollWidth > table.clientWidth).length);
    expect(scrolling).toBe(0);

    await page.setViewportSize({ width: 1_280, height: 800 });
    await page.locator("nav summary").waitFor({ state: "hidden" });
    expect(await model.isVisible()).toBe(true);
    const [list, text] = await Promise.all([page.locator("nav").boundingBox(), page.locator("main").boundingBox()]);
    expect((list?.x ?? 0) + (list?.width ?? 0)).toBeLessThan(text?.x ?? 0);
    await page.setViewportSize({ width: 390, height: 844 });
    await model.waitFor({ state: "hidden" });
  });

  it("[API8] axe finds nothing wrong in light and dark with the page and an answer on it, and nothing is wider than a narrow phone", async () => {
    const page = await open();
    await sendCommit(page, "commitCheap");
    await page.locator("#commitCheap form summary").click();
    expect(await findingsInBoth(page, "#commitCheap")).toEqual([]);
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 740 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    }
  });
});
