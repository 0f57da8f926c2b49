// Opens pages in tabs of a real browser, and collects their complaints and requests.
import type { BrowserContext, Page } from "playwright-core";
import { within } from "../../src/coordinator/deadline.ts";
import { finallyDo } from "../support/finally.ts";

/** How long a wait leaves the page alone between two looks. */
const LOOK_MS = 50;
const TIMEOUT_MS = 45_000;

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

  constructor(page: Page) {
    this.page = page;
  }

  /** Presses the button that is named so. */
  async press(name: string): Promise<void> {
    await this.page.getByRole("button", { name, exact: true }).click();
  }

  /** The visible text of an element; empty where it is hidden. */
  async text(selector: string): Promise<string> {
    return await this.page.locator(selector).evaluateAll((found) => {
      const [element] = found;
      return element?.checkVisibility({ visibilityProperty: true }) === true ? (element.textContent ?? "").trim() : "";
    });
  }

  /** Waits until the text of an element is this, or holds it. */
  async says(selector: string, part: string, isWhole = false): Promise<void> {
    // The page itself looks again and again: a question from here costs three processes 6 ms, and a page that waits is asked for seconds.
    const looking = this.page.waitForFunction(
      ({ selector, part, isWhole }) => {
        const element = document.querySelector(selector);
        const text = element?.checkVisibility({ visibilityProperty: true }) === true ? (element.textContent ?? "").trim() : "";
        return isWhole ? text === part : text.includes(part);
      },
      { selector, part, isWhole },
      { polling: LOOK_MS, timeout: TIMEOUT_MS },
    );
    await looking.catch(async (error: unknown) => {
      const text = await within(2_000, this.text(selector)).catch(String);
      throw new Error(`no "${part}" in ${selector}, but: ${String(text)}`, { cause: error });
    });
  }

  /** Waits until an element can be seen and has a text; gives it. */
  async filled(selector: string): Promise<string> {
    const looking = await this.page.waitForFunction(
      (selector) => {
        const element = document.querySelector(selector);
        return element?.checkVisibility({ visibilityProperty: true }) === true && (element.textContent ?? "").trim();
      },
      selector,
      { polling: LOOK_MS, timeout: TIMEOUT_MS },
    );
    return String(await looking.jsonValue());
  }
}
