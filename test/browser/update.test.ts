import type { Browser, BrowserContext } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { commit, ended, get, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { CHROMIUM, launchChromium, newProfile, WITHOUT } from "./chromium.ts";
import { launchReleases, type Releases } from "./release.ts";
import { openPage, tabComplaints } from "./tab.ts";
import { WorkerTab } from "./worker-tab.ts";

let browser: Browser;
let coordinator: CoordinatorHere;
let releases: Releases;
let context: BrowserContext;

/** Addresses of the script and the engine that a tab runs. */
async function filesOf(tab: WorkerTab): Promise<string[]> {
  const script = await tab.page.locator("script[type=module]").getAttribute("src");
  const workers = tab.page.workers().map((worker) => new URL(worker.url()).pathname);
  return [script ?? "", ...workers.filter((path) => path.includes("/engine-"))];
}

const cachesOf = (tab: WorkerTab) => tab.page.evaluate(async () => (await caches.keys()).toSorted());

/** True if the worker page has one service worker, which is at work. */
const isSettled = (tab: WorkerTab) =>
  tab.page.evaluate(async () => {
    const registration = await navigator.serviceWorker.getRegistration("/worker");
    return registration?.installing === null && registration.waiting === null && registration.active?.state === "activated";
  });

describe.skipIf(CHROMIUM === undefined)(`a worker tab beside a new release of its coordinator, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
    releases = await launchReleases(coordinator.url);
    context = await newProfile(browser);
  });

  afterAll(async () => {
    await context.close();
    expect(tabComplaints()).toEqual([]);
  });

  const open = () => WorkerTab.open(context, `${releases.url}/worker`);

  async function does(key: string): Promise<void> {
    const job = await ended(coordinator.url, await commit(coordinator.url, "cheap", task("Good.", "classify")));
    expect(job).toMatchObject({ status: "completed", receipt: { provider_pubkey: key } });
  }

  it("a page that comes from another release than its files is not stored; when it is of theirs, it is", async () => {
    const profile = await newProfile(browser);
    const page = await openPage(profile, `${releases.url}/docs`);
    const install = () =>
      page.evaluate(async () => {
        const registration = await navigator.serviceWorker.register("/worker/sw.js", { scope: "/worker" });
        const { installing } = registration;
        await new Promise((resolve) => installing?.addEventListener("statechange", resolve, { once: true }));
        return { state: installing?.state, caches: (await caches.keys()).length };
      });
    releases.update("page");
    expect(await install()).toEqual({ state: "redundant", caches: 0 });
    releases.update();
    expect(await install()).toMatchObject({ state: expect.stringMatching(/^installed|^activat/), caches: 1 });
    releases.update("nothing");
    await profile.close();
  });

  it("[JB9] keeps running with its stored files, and is the new release after a reload", async () => {
    const old = await open();
    await old.press("Start");
    await old.shows("Ready");
    const key = await old.key();
    await old.page.evaluate(async () => {
      await navigator.serviceWorker.ready;
      if (navigator.serviceWorker.controller === null)
        await new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
    });
    const oldFiles = await filesOf(old);
    const oldCaches = await cachesOf(old);
    expect([oldFiles.length, oldCaches.length]).toEqual([2, 1]);

    releases.update();
    for (const file of oldFiles) expect((await get(`${releases.url}${file}`)).status).toBe(404);
    await does(key);

    // A look for updates, as the browser does now and then: the new service worker waits for the old tab's end.
    await old.page.evaluate(async () => {
      const registration = await navigator.serviceWorker.ready;
      await registration.update();
    });
    await until("a new release that waits", () => old.page.evaluate(async () => ((await navigator.serviceWorker.ready).waiting === null ? undefined : true)));
    expect(await cachesOf(old)).toHaveLength(2);

    // The browser's own cache may be gone at any time.
    await (await context.newCDPSession(old.page)).send("Network.clearBrowserCache");
    // Stopped and started again it needs a new engine and a new thread, whose files only its own service worker has.
    await old.press("Stop");
    await old.shows("Off");
    await old.press("Start");
    await old.shows("Ready");
    await does(key);
    expect(await filesOf(old)).toEqual(oldFiles);

    const second = await open();
    await second.says("#other-title", "Another tab runs this worker");
    await second.press("Take over here");
    await second.shows("Ready");
    const newFiles = await filesOf(second);
    for (const file of newFiles) expect(oldFiles).not.toContain(file);
    expect(await second.key()).toBe(key);
    await does(key);
    await second.page.close();
    await old.shows("Ready");
    await does(key);

    await old.page.reload();
    await old.shows("Ready");
    expect(await filesOf(old)).toEqual(newFiles);
    expect(await old.key()).toBe(key);
    await does(key);

    // When its last tab leaves, the old service worker ends, and what it kept. The tab goes to a page without one, from where the change can be seen: a tab
    // that is opened in the middle of it would be held by the browser until the new service worker runs.
    await old.page.goto(`${releases.url}/docs`);
    await until("the new release alone", async () => ((await isSettled(old)) && (await cachesOf(old)).length === 1 ? true : undefined));
    expect(await cachesOf(old)).not.toEqual(oldCaches);
    const fresh = await open();
    await fresh.shows("Ready");
    expect(await filesOf(fresh)).toEqual(newFiles);
    await does(key);
  });
});
