import jsQR from "jsqr";
import type { Browser, BrowserContext } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fingerprintOf } from "../../src/receipt/ed25519.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { commit, ended, get, post, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { BARE, CHROMIUM, launchChromium, newProfile, PHONE, WITHOUT } from "./chromium.ts";
import { findingsInBoth, SCHEMES, tabOrder } from "./findings.ts";
import { askedOrigins, openPage, Tab, tabComplaints } from "./tab.ts";
import { WorkerTab } from "./worker-tab.ts";

const KEY = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";

let browser: Browser;
let coordinator: CoordinatorHere;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`pairing in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
  });

  beforeEach(async () => {
    context = await newProfile(browser, PHONE);
  });

  afterEach(() => context.close());

  afterAll(() => {
    expect(tabComplaints()).toEqual([]);
    expect(askedOrigins()).toEqual([coordinator.url]);
  });

  const open = async (where = context) => new Tab(await openPage(where, `${coordinator.url}/pair`));

  /** A page whose user has just been made. */
  async function opened(where = context): Promise<Tab> {
    const tab = await open(where);
    await tab.press("Make one");
    await tab.says("#user-result", "In use");
    return tab;
  }

  async function withCode(where = context): Promise<{ tab: Tab; code: string }> {
    const tab = await opened(where);
    await tab.press("Make a code");
    await tab.says("#code-result", "Waiting for a worker.");
    return { tab, code: await tab.text("#big-code") };
  }

  const claim = (code: string) => post(`${coordinator.url}/v1/trust/claim`, { pairing_code: code, provider_pubkey: KEY });

  /** The fields that are marked as wrong. */
  const invalid = (tab: Tab) => tab.page.evaluate(() => [...document.querySelectorAll('[aria-invalid="true"]')].map(({ id }) => id));

  /** The user that the browser keeps for all tabs. */
  const stored = async (tab: Tab): Promise<unknown> => JSON.parse(await tab.page.evaluate(() => localStorage.getItem("compute-router-user") ?? "null"));

  /** The network comes back, for which a page looks at once. */
  const comeBack = (tab: Tab) => tab.page.evaluate(() => window.dispatchEvent(new Event("online")));

  it("[SPEC trust, TR1, TR4, JB8] a code, scanned by a phone: both sides see the same words, and the phone does the user's PRIVATE jobs", async () => {
    const { tab, code } = await withCode();
    expect(code).toMatch(/^[0-9A-F]{6}$/);
    expect(await tab.text("#time-left")).toMatch(/^(60:00|59:\d\d)$/);
    const userId = await tab.page.getByLabel("User id").inputValue();
    expect(userId).toMatch(/^[0-9a-f]{32}$/);
    expect(await tab.page.getByLabel("User id").getAttribute("type")).toBe("password");

    const scanned = await scan(await tab.page.locator("#qr svg").screenshot());
    expect(scanned).toBe(`${coordinator.url}/worker?code=${code}`);
    expect(await tab.page.locator("#worker-link").getAttribute("href")).toBe(scanned);
    expect(await tab.text("#command")).toBe(`npx compute-router worker pair ${code} --url ${coordinator.url}`);
    expect(await tab.page.locator("#only-here").isVisible()).toBe(true);

    const phone = await newProfile(browser, BARE);
    const worker = await WorkerTab.open(phone, scanned);
    await worker.press("Start");
    await worker.shows("Ready");
    await worker.press("Pair");
    await worker.says("#pair-result", "Paired.");
    const key = await worker.key();

    await comeBack(tab);
    await tab.says("#paired", "Paired");
    expect((await tab.text("#paired .hint")).replaceAll(/\s+/g, " ")).toMatch(
      /If the words differ, .* make a new user id .* send nothing PRIVATE with the old one\.$/,
    );
    const words = async (at: Tab, list: string) => (await at.page.locator(`${list} li`).allTextContents()).join(" ");
    expect(await words(tab, "#paired-words")).toBe(fingerprintOf(key));
    expect(await words(worker, "#words")).toBe(fingerprintOf(key));
    await tab.says("#workers", key);
    expect(await words(tab, "#workers .words")).toBe(fingerprintOf(key));
    await tab.says("#live", `Paired with the worker ${fingerprintOf(key)}.`, true);

    const id = await commit(coordinator.url, "cheap", { ...task("Mine alone, and I love it.", "classify"), user_id: userId, privacy_class: "PRIVATE" });
    expect(await ended(coordinator.url, id)).toMatchObject({ status: "completed", receipt: { provider_pubkey: key } });
    await phone.close();
  });

  it("[TR1] keeps the user id for the next visit, and an open code until its tab is closed; another user sees neither code nor workers", async () => {
    const { tab, code } = await withCode();
    const userId = await tab.page.getByLabel("User id").inputValue();
    await tab.page.reload();
    await tab.says("#big-code", code);
    expect(await tab.page.locator("#you").getAttribute("open")).toBeNull();
    await claim(code);
    await tab.page.reload();
    await tab.says("#paired-words", fingerprintOf(KEY).split(" ")[0] ?? "");
    await tab.page.reload();
    await tab.says("#workers", KEY);
    expect(await tab.text("#paired")).toBe("");

    const next = await open();
    await next.page.locator("#you summary").click();
    expect(await next.page.getByLabel("User id").inputValue()).toBe(userId);
    await next.press("Make a new one");
    await next.says("#user-result", "Another user id has other paired workers");
    expect(await next.text("#workers")).toContain(KEY);
    await next.press("Use this");
    await next.says("#no-workers", "None yet");
    expect(await next.text("#workers")).toBe("");
    await next.page.getByLabel("User id").fill(userId);
    await next.press("Use this");
    await next.says("#workers", KEY);
  });

  it("[TR1] tabs share one user id: a tab that was open before takes the one that another made, and replaces it only after a warning", async () => {
    const waiting = await open();
    const maker = await opened();
    const userId = await maker.page.getByLabel("User id").inputValue();
    await waiting.says("#user-result", "Another tab has stored this user id");
    await waiting.says("#no-workers", "None yet");
    expect(await waiting.page.getByLabel("User id").inputValue()).toBe(userId);
    await waiting.press("Make a new one");
    await waiting.says("#user-result", "Another user id has other paired workers");
    const own = await waiting.page.getByLabel("User id").inputValue();
    expect(await stored(maker)).toMatchObject({ userId });

    await waiting.press("Use this");
    await maker.says("#user-result", "Another tab has stored this user id");
    expect(await maker.page.getByLabel("User id").inputValue()).toBe(own);
  });

  it("[TR1] a tab that has slept reads the stored user id again before it writes one, and keeps what a person has typed", async () => {
    await context.addInitScript(() => window.addEventListener("storage", (event) => event.stopImmediatePropagation(), { capture: true }));
    const [asleep, typing] = [await open(), await open()];
    await typing.page.getByLabel("User id").fill("my-own");
    const maker = await opened();
    const userId = await maker.page.getByLabel("User id").inputValue();
    await asleep.says("#no-workers", "No user id yet");

    await asleep.press("Make one");
    await asleep.says("#user-result", "Another tab has stored this user id");
    expect(await asleep.page.getByLabel("User id").inputValue()).toBe(userId);

    await typing.press("Use this");
    await typing.says("#user-result", "Another user id has other paired workers");
    expect(await typing.page.getByLabel("User id").inputValue()).toBe("my-own");
    expect(await stored(maker)).toMatchObject({ userId });
    await typing.press("Use this");
    await typing.says("#user-result", "In use");
    expect(await stored(maker)).toMatchObject({ userId: "my-own" });

    await maker.press("Make a code");
    await maker.says("#user-result", "Another tab has stored this user id");
    expect(await maker.text("#big-code")).toBe("");
    await maker.press("Make a code");
    await maker.says("#code-result", "Waiting for a worker.");
    expect(await stored(maker)).toMatchObject({ userId: "my-own" });
  });

  it("[TR2] an optional token protects the user id from its first code on: without it nobody sees the list, and the page asks for it", async () => {
    const tab = await opened();
    const userId = await tab.page.getByLabel("User id").inputValue();
    expect(await tab.page.getByLabel("Protect it with a token").isChecked()).toBe(false);
    await tab.page.getByLabel("Protect it with a token").check();
    const token = await tab.page.getByLabel("Token", { exact: true }).inputValue();
    expect(token).toMatch(/^[0-9a-f]{32}$/);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await tab.press("Copy token");
    await tab.page.getByRole("button", { name: "Copied" }).waitFor();
    expect(await tab.page.evaluate(() => navigator.clipboard.readText())).toBe(token);
    await tab.page.getByLabel("Token", { exact: true }).fill("");
    expect(await tab.page.getByRole("button", { name: "Copy token" }).isVisible()).toBe(false);
    expect(await tab.page.getByRole("button", { name: "Use this" }).isDisabled()).toBe(true);
    await tab.press("Make a code");
    await tab.says("#user-result", "Enter a token");
    expect(await invalid(tab)).toEqual(["user-token"]);
    await tab.page.getByLabel("Token", { exact: true }).fill(token);
    // Also without "Use this": the code is for what the form shows.
    await tab.press("Make a code");
    await tab.says("#code-result", "Waiting for a worker.");
    const list = `${coordinator.url}/v1/trust/list?user_id=${userId}`;
    expect(await get(list)).toMatchObject({ status: 401, body: { error: "user_token_required" } });

    const stranger = await newProfile(browser);
    const other = await open(stranger);
    await other.page.getByLabel("User id").fill(userId);
    await other.press("Use this");
    await other.says("#no-workers", "A token protects this user id");
    await other.press("Make a code");
    await other.says("#code-result", "A token protects this user id");
    expect(await other.page.evaluate(() => document.activeElement?.id)).toBe("user-token");
    await other.page.keyboard.type(token);
    await other.page.keyboard.press("Enter");
    await other.says("#no-workers", "None yet");
    await stranger.close();
  });

  it("[TR2] a token that comes after the first code has no effect, and the page says so", async () => {
    const tab = await opened();
    await tab.press("Make a code");
    await tab.says("#code-result", "Waiting for a worker.");
    await tab.page.locator("#you summary").click();
    await tab.page.getByLabel("Protect it with a token").check();
    await tab.press("Make another code");
    await tab.says("#user-result", "The token has no effect");
    expect(await invalid(tab)).toEqual(["user-token"]);
  });

  it("[SPEC trust] counts down, checks at once when the network is back, and says when the hour is over", async () => {
    await context.clock.install();
    const { tab, code } = await withCode();
    await context.clock.fastForward("20:00");
    await tab.says("#time-left", "39:");
    // Time stands still six seconds after the last look: of itself the page would never look again.
    await context.clock.pauseAt(await tab.page.evaluate(() => Date.now() + 6_000));
    await claim(code);
    await comeBack(tab);
    await tab.says("#paired", "Paired");
    await context.clock.resume();

    await tab.press("Pair another worker");
    await tab.says("#code-result", "Waiting for a worker.");
    expect(await tab.text("#big-code")).not.toBe(code);
    await context.clock.fastForward("01:00:01");
    await tab.says("#code-result", "No worker claimed the code within one hour.");
    expect(await tab.text("#big-code")).toBe("");
    expect(await tab.page.getByRole("button", { name: "Make a code" }).isEnabled()).toBe(true);
  });

  it("[TR1] says that the user id is lost with the page if the browser stores nothing", async () => {
    await context.addInitScript(() => {
      Storage.prototype.setItem = () => {
        throw new DOMException("no room", "QuotaExceededError");
      };
    });
    const tab = await opened();
    await tab.says("#user-result", "In use until this page is closed, because this browser does not store it. Copy your user id now.");
    expect(await tab.text("#you-state")).toBe("not stored");
  });

  it("reports an invalid user id and a missing network", async () => {
    const tab = await open();
    expect(await tab.page.getByRole("button", { name: "Make a code" }).isDisabled()).toBe(true);
    await tab.page.getByLabel("User id").fill("x".repeat(129));
    await tab.press("Use this");
    await tab.says("#user-result", "1 to 128 characters");
    expect(await invalid(tab)).toEqual(["user-id"]);
    await tab.press("Make one");
    await tab.page.getByLabel("Protect it with a token").check();
    await tab.page.getByLabel("Token", { exact: true }).fill("é");
    await tab.press("Use this");
    await tab.says("#user-result", "userToken");
    expect(await invalid(tab)).toEqual(["user-token"]);
    await tab.page.getByLabel("Protect it with a token").uncheck();
    await tab.says("#no-workers", "None yet");
    await context.setOffline(true);
    await tab.press("Make a code");
    await tab.says("#code-result", "No answer from the coordinator");
    await tab.press("Refresh");
    await tab.says("#no-workers", "No answer from the coordinator");
    await context.setOffline(false);
    // Of itself, as the network is back.
    await tab.says("#no-workers", "None yet");
    await tab.press("Make a code");
    await tab.says("#code-result", "Waiting for a worker.");
  });

  it("[TR3] a code stays on the page when there is no other one, and its claim is noticed", async () => {
    await context.clock.install();
    const { tab, code } = await withCode();
    await context.setOffline(true);
    await tab.press("Make another code");
    await tab.says("#code-result", "No answer from the coordinator");
    expect(await tab.text("#big-code")).toBe(code);
    expect(await tab.page.getByRole("button", { name: "Make another code" }).isEnabled()).toBe(true);
    await context.setOffline(false);
    await claim(code);
    await context.clock.fastForward("00:10");
    await tab.says("#paired", "Paired");
  });

  it("axe finds nothing wrong in light and dark, and nothing is cut off at 360 and 320 px: new, code, paired", async () => {
    const shot = async (tab: Tab, name: string) => {
      expect(await findingsInBoth(tab.page)).toEqual([]);
      for (const width of [360, 320]) {
        await tab.page.setViewportSize({ width, height: 740 });
        expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      }
      const folder = process.env["SCREENSHOTS"];
      if (folder === undefined) return;
      for (const width of [360, 1_120]) {
        await tab.page.setViewportSize({ width, height: 740 });
        for (const colorScheme of SCHEMES) {
          await tab.page.emulateMedia({ colorScheme });
          await tab.page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png`, fullPage: true });
        }
      }
    };
    const first = await open();
    await shot(first, "new");
    const { tab, code } = await withCode();
    await shot(tab, "code");
    await tab.page.locator("#you summary").click();
    await claim(code);
    await tab.page.reload();
    await tab.says("#paired", "Paired");
    await tab.says("#workers", KEY);
    await shot(tab, "paired");
  });

  it("every control is reached and used by keyboard, in reading order, with a visible focus", async () => {
    const { page } = await open();
    expect(await tabOrder(page)).toEqual(["Skip to content", "You needed", "User id", "Make one", "Protect it with a token", "Home", "Run a worker", "API"]);
    await page.getByRole("button", { name: "Make one" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Make a code" }).focus();
    await page.keyboard.press("Enter");
    await new Tab(page).says("#code-result", "Waiting for a worker.");
  });

  it("the focus is never lost: it goes to the code, to the worker that claimed it, to the message about a failure, and back to Refresh", async () => {
    await context.clock.install();
    const tab = await opened();
    const hasFocus = (id: string) => until(`the focus on ${id}`, async () => (await tab.page.evaluate(() => document.activeElement?.id)) === id || undefined);
    const pressed = async (name: string) => {
      await tab.page.getByRole("button", { name, exact: true }).focus();
      await tab.page.keyboard.press("Enter");
    };
    await context.setOffline(true);
    await pressed("Make a code");
    await tab.says("#code-result", "No answer from the coordinator");
    await hasFocus("make-code");
    await context.setOffline(false);
    await pressed("Make a code");
    await tab.says("#code-result", "Waiting for a worker.");
    await hasFocus("big-code");
    await tab.page.keyboard.press("Tab");
    await hasFocus("copy-code");
    await claim(await tab.text("#big-code"));
    await context.clock.fastForward("00:10");
    await tab.says("#workers", KEY);
    await hasFocus("paired");
    await pressed("Refresh");
    await tab.says("#workers", KEY);
    await hasFocus("refresh");
    // A person who has moved on keeps their place.
    await pressed("Pair another worker");
    await tab.page.locator("#you summary").focus();
    await tab.says("#code-result", "Waiting for a worker.");
    expect(await tab.page.evaluate(() => document.activeElement?.tagName)).toBe("SUMMARY");
    await tab.page.keyboard.press("Enter");
    await tab.page.getByLabel("User id").fill("someone-else");
    await pressed("Use this");
    await tab.says("#user-result", "In use");
    await hasFocus("user-result");
  });

  it("a screen reader announces the code once, letter by letter, and not every second", async () => {
    const { tab, code } = await withCode();
    expect(await tab.page.getByRole("img", { name: [...code].join(" "), exact: true }).isVisible()).toBe(true);
    await tab.says("#live", `Code ${[...code].join(" ")}, valid for 60 minutes.`, true);
    const told = await tab.page.evaluateHandle(() => {
      const changes: (string | null)[] = [];
      for (const live of document.querySelectorAll('[role="status"]'))
        new MutationObserver(() => changes.push(live.textContent)).observe(live, { childList: true, characterData: true, subtree: true });
      return changes;
    });
    const left = await tab.text("#time-left");
    await expect.poll(() => tab.text("#time-left"), { timeout: 5_000 }).not.toBe(left);
    expect(await told.jsonValue()).toEqual([]);
  });
});

/** What a QR code reader that has nothing to do with the writer sees in a picture. */
async function scan(png: Buffer): Promise<string> {
  const page = await context.newPage();
  // As base64: of an array the driver would check each number.
  const { pixels, width, height } = await page.evaluate(
    async (url) => {
      const image = await createImageBitmap(await (await fetch(url)).blob());
      const canvas = new OffscreenCanvas(image.width, image.height);
      const drawing = canvas.getContext("2d");
      drawing?.drawImage(image, 0, 0);
      const bytes = new Uint8Array(drawing?.getImageData(0, 0, image.width, image.height).data ?? []);
      return { pixels: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")), width: image.width, height: image.height };
    },
    `data:image/png;base64,${png.toString("base64")}`,
  );
  await page.close();
  return jsQR(new Uint8ClampedArray(Buffer.from(pixels, "base64")), width, height)?.data ?? "nothing";
}
