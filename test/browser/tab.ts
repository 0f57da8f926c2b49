import { setTimeout as delay } from "node:timers/promises";
import type { BrowserContext, Page } from "playwright-core";
import { within } from "../../src/coordinator/deadline.ts";
import { finallyDo } from "../support/finally.ts";
import { until } from "../support/until.ts";

/** How long a wait leaves the page alone between two looks, which cost it more than it is doing then. */
const LOOK_MS = 50;

/** What a tab of this file complained about, over its whole life. */
const complaints: string[] = [];
/** Every address that any tab of this file asked for. */
const asked = new Set<string>();

/** What went wrong in all tabs of this file so far: exceptions, refusals of the content security policy. */
export function tabComplaints(): readonly string[] {
  return complaints;
}

/** The origins that all tabs of this file asked so far. */
export function askedOrigins(): string[] {
  return [...new Set([...asked].map((url) => new URL(url).origin))];
}

/** Opens a page of the coordinator in a new tab, whose complaints are noted. */
export async function openPage(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage();
  finallyDo(() => {
    complaints.length = 0;
    asked.clear();
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    // That something is out of reach is what some tests are about.
    if (message.type() === "error" && !/ERR_|Failed to load resource|WebSocket connection/.test(message.text())) complaints.push(message.text());
  });
  const unanswered = new Set<string>();
  page.on("request", (request) => {
    asked.add(request.url());
    unanswered.add(request.url());
  });
  page.on("requestfinished", (request) => unanswered.delete(request.url()));
  page.on("requestfailed", (request) => unanswered.delete(request.url()));
  try {
    await page.goto(url);
  } catch (error) {
    const waiting = `still unanswered: ${[...unanswered].join(", ")}`;
    throw new Error(`cannot open ${url}: ${waiting}; service workers: ${String(await within(2_000, serviceWorkers(page)))}`, { cause: error });
  }
  return page;
}

/** The service workers that this page could have, as the browser itself knows them: the page need not answer. */
async function serviceWorkers(page: Page): Promise<string> {
  const session = await page.context().newCDPSession(page);
  const told = new Promise<string>((resolve) => {
    session.on("ServiceWorker.workerVersionUpdated", ({ versions }) => {
      resolve(versions.map(({ versionId, scriptURL, status, runningStatus }) => `${versionId} ${scriptURL} ${status}, ${runningStatus}`).join("; "));
    });
  });
  await session.send("ServiceWorker.enable");
  return await told;
}

/** A page in a tab, as a person sees it. */
export class Tab {
  readonly page: Page;
  #last = "";

  constructor(page: Page) {
    this.page = page;
  }

  /** Presses the button that is named so. */
  async press(name: string): Promise<void> {
    await this.page.getByRole("button", { name, exact: true }).click();
  }

  /** The visible text of an element; empty where it is hidden. */
  async text(selector: string): Promise<string> {
    // One question to the page, not one for each of the two: some tests ask for seconds.
    const text = await this.page.locator(selector).evaluateAll((found) => {
      const [element] = found;
      return element?.checkVisibility({ visibilityProperty: true }) === true ? (element.textContent ?? "").trim() : "";
    });
    this.#last = `${selector}: ${text}`;
    return text;
  }

  /** Waits until the text of an element is this, or holds it. */
  async says(selector: string, part: string, isWhole = false): Promise<void> {
    await until(
      `"${part}" in ${selector}`,
      async () => {
        const text = await this.text(selector);
        if (isWhole ? text === part : text.includes(part)) return true;
        await delay(LOOK_MS);
        return undefined;
      },
      () => this.#last,
    );
  }
}
