import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContext } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator, temporaryFolder } from "../support/coordinator.ts";
import { ended, get, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { BARE, CHROMIUM, launchChromium, launchWholeChromium, newProfile, PHONE, WITHOUT } from "./chromium.ts";
import { findings } from "./findings.ts";
import { launchNetwork, type Network } from "./network.ts";
import { askedOrigins, openPage, tabComplaints } from "./tab.ts";
import { WorkerTab } from "./worker-tab.ts";

const DATABASE = "compute-router-worker";

let browser: Browser;
let coordinator: CoordinatorHere;
let network: Network;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`a browser worker whose storage fails, and one that is installed, in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
    network = await launchNetwork(coordinator.url);
  });

  // The service worker goes with the site's data in the first test; the other tests are about what it has no part in.
  beforeEach(async () => {
    context = await newProfile(browser, PHONE, BARE);
  });

  // Also those of a test that has failed: their workers would take the jobs of the next one.
  afterEach(async () => {
    for (const each of browser.contexts()) await each.close();
    await online(0);
  });

  afterAll(() => {
    expect(tabComplaints()).toEqual([]);
    expect(askedOrigins().filter((origin) => origin !== coordinator.url && origin !== network.url)).toEqual([]);
  });

  const open = (where = context) => WorkerTab.open(where, `${coordinator.url}/worker`);

  async function started(where = context): Promise<WorkerTab> {
    const tab = await open(where);
    await tab.press("Start");
    await tab.shows("Ready");
    return tab;
  }

  const online = (count: number) =>
    until(`${count} workers online`, async () => ((await get(`${coordinator.url}/v1/health`)).body.workers_online === count ? true : undefined));

  /** A job that is done by this worker before its first attempt could have timed out. */
  async function does(key: string, job = task("What a lovely day.", "classify")): Promise<void> {
    const response = await fetch(`${coordinator.url}/v1/jobs/commit/cheap`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "wait=20" },
      body: JSON.stringify({ user_id: "storage", ...job }),
    });
    expect(await response.json()).toMatchObject({ job: { status: "completed", receipt: { provider_pubkey: key } } });
  }

  async function doesThree(key: string): Promise<void> {
    for (let i = 0; i < 3; i++) await does(key);
  }

  /** The thread that has the key, the socket and the database. */
  const engineOf = (tab: WorkerTab) => tab.page.workers().find((worker) => worker.url().includes("/engine-")) ?? expect.unreachable();

  async function clearSiteData(tab: WorkerTab): Promise<void> {
    const session = await context.newCDPSession(tab.page);
    await session.send("Storage.clearDataForOrigin", { origin: coordinator.url, storageTypes: "all" });
  }

  it("[JB9, WS3] keeps working with the key in memory when the site's data is cleared, says so, and stores the key again on request", async () => {
    context = await newProfile(browser, PHONE);
    const tab = await started();
    const key = await tab.key();
    await does(key);
    await clearSiteData(tab);
    await doesThree(key);
    await tab.says("#storage", "This site's data was deleted");
    await tab.says("#custody", "the key is lost when the page is closed");
    await tab.says("#fact-accepted", "4");
    expect(await findings(tab.page)).toEqual([]);
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    // What a person has deleted does not come back by itself.
    expect(await tab.page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name))).toEqual([]);

    await tab.press("Store it again");
    await tab.says("#storage", "", true);
    await does(key);
    await tab.says("#fact-accepted", "5");
    await tab.page.reload();
    await tab.shows("Ready");
    expect(await tab.key()).toBe(key);
    await tab.says("#fact-accepted", "5");
    await expect.poll(() => tab.page.locator("#jobs li").count()).toBe(5);
    await does(key);
  });

  it("[WS3] after the site's data was cleared and the page closed, this browser is a new worker, and nothing of the old one is left", async () => {
    const tab = await started();
    const key = await tab.key();
    await clearSiteData(tab);
    await does(key);
    await tab.says("#storage", "This site's data was deleted");
    await tab.page.reload();
    await tab.press("Start");
    await tab.shows("Ready");
    const next = await tab.key();
    expect(next).not.toBe(key);
    expect(await tab.text("#storage")).toBe("");
    await does(next);
  });

  it("[JB9] keeps working when another tab deletes the database, and does not block the deletion", async () => {
    const tab = await started();
    const key = await tab.key();
    const other = await openPage(context, `${coordinator.url}/docs`);
    const outcome = await other.evaluate(
      (name) =>
        new Promise((resolve) => {
          const deleting = indexedDB.deleteDatabase(name);
          for (const type of ["success", "error", "blocked"]) deleting.addEventListener(type, () => resolve(type));
        }),
      DATABASE,
    );
    expect(outcome).toBe("success");
    await doesThree(key);
    await tab.says("#storage", "This site's data was deleted");
  });

  it("[JB9, WS11] a newer version in another tab upgrades the database: this tab finishes its job, disconnects, says so, and makes no second key", async () => {
    const tab = await started();
    const key = await tab.key();
    const job = await fetch(`${coordinator.url}/v1/jobs/commit/cheap`, {
      method: "POST",
      body: JSON.stringify({ user_id: "storage", ...task("Name: Anna\nTotal: EUR 12.50\n\n".repeat(8_000), "summarize") }),
    });
    const { job_id: id } = (await job.json()) as { job_id: string };
    await until("running", async () => ((await get(`${coordinator.url}/v1/jobs/${id}`)).body.status === "pending" ? undefined : true));
    const newer = await openPage(context, `${coordinator.url}/docs`);
    const outcome = await newer.evaluate(
      (name) =>
        new Promise((resolve) => {
          const opening = indexedDB.open(name, 2);
          for (const type of ["success", "error", "blocked"]) opening.addEventListener(type, () => resolve(type));
        }),
      DATABASE,
    );
    expect(outcome).toBe("success");
    expect(await ended(coordinator.url, id)).toMatchObject({ status: "completed", receipt: { provider_pubkey: key } });
    await tab.shows("Out of date");
    await tab.says("#state-detail", "newer version");
    expect(await tab.text("#custody")).not.toContain("gone");
    expect(await findings(tab.page)).toEqual([]);
    await online(0);

    // It takes nothing, so another worker does the next job.
    const elsewhere = await newProfile(browser, BARE);
    const second = await started(elsewhere);
    await doesThree(await second.key());
    await elsewhere.close();

    // Loaded again it is still the old version here: it would not be that worker, so it is none.
    await tab.press("Reload");
    await tab.shows("Out of date");
    expect(await tab.text("#public-key")).toBe("");
  });

  it("[JB9] keeps working when the disk is full, says so, and stores everything when there is room again", async () => {
    // Chromium remembers for half a minute how much room there was, and looks again for what is larger: so there was little from the start.
    const tab = new WorkerTab(await openPage(context, `${coordinator.url}/docs`));
    const session = await context.newCDPSession(tab.page);
    await session.send("Storage.overrideQuotaForOrigin", { origin: coordinator.url, quotaSize: 150_000 });
    await tab.page.goto(`${coordinator.url}/worker`);
    await tab.press("Start");
    await tab.shows("Ready");
    const key = await tab.key();
    await does(key);
    await session.send("Storage.overrideQuotaForOrigin", { origin: coordinator.url, quotaSize: 1 });
    // Chromium compresses what it stores, so this is text that hardly gets smaller.
    const large = task(Array.from({ length: 4_000 }, () => `Name: ${randomUUID()}\nTotal: EUR 12.50\n\n`).join(""), "extract_json");
    await does(key, large);
    await doesThree(key);
    await tab.says("#storage", "full");
    expect(await findings(tab.page)).toEqual([]);
    await session.send("Storage.overrideQuotaForOrigin", { origin: coordinator.url });
    await tab.says("#storage", "", true);
    await tab.page.reload();
    await tab.shows("Ready");
    expect(await tab.key()).toBe(key);
    await tab.says("#fact-accepted", "5");
    await expect.poll(() => tab.page.locator("#jobs li").count()).toBe(5);
  });

  it("[JB9] keeps working when the browser's database throws InvalidStateError or UnknownError, and stores everything when the database works again", async () => {
    const tab = await started();
    const key = await tab.key();
    for (const [name, jobs] of [
      ["InvalidStateError", "3"],
      ["UnknownError", "6"],
    ] as const) {
      const engine = engineOf(tab);
      // As Safari does when the process behind it has died: every transaction throws, and so does every try to open the database again.
      await engine.evaluate((error) => {
        const transaction = Object.getOwnPropertyDescriptor(IDBDatabase.prototype, "transaction") ?? {};
        const opening = Object.getOwnPropertyDescriptor(IDBFactory.prototype, "open") ?? {};
        Object.assign(globalThis, {
          giveBack: () => {
            Object.defineProperty(IDBDatabase.prototype, "transaction", transaction);
            Object.defineProperty(IDBFactory.prototype, "open", opening);
          },
        });
        IDBDatabase.prototype.transaction = IDBFactory.prototype.open = () => {
          throw new DOMException("Connection to Indexed Database server lost", error);
        };
      }, name);
      await doesThree(key);
      await tab.says("#storage", "storage does not answer");
      await engine.evaluate(() => (globalThis as unknown as { giveBack: () => void }).giveBack());
      await tab.says("#storage", "", true);
      await tab.page.reload();
      await tab.shows("Ready");
      expect(await tab.key()).toBe(key);
      await tab.says("#fact-accepted", jobs, true);
    }
  });

  describe("in a whole Chromium", () => {
    let whole: BrowserContext;

    // One for both tests, because its start costs 4 s of CPU. The setting "Block all cookies" goes for IndexedDB, localStorage and locks too; one site is
    // exempt.
    beforeAll(async () => {
      const profile = temporaryFolder("profile");
      mkdirSync(join(profile, "Default"), { recursive: true });
      const cookies = { [`${network.url},*`]: { setting: 1 } };
      const settings = { default_content_setting_values: { cookies: 2 }, content_settings: { exceptions: { cookies } } };
      writeFileSync(join(profile, "Default", "Preferences"), JSON.stringify({ profile: settings }));
      whole = await launchWholeChromium(profile);
    });

    afterAll(() => whole.close());

    it("[JB9, SPEC] works where the browser blocks all storage, and says that nothing is kept", async () => {
      const tab = await started(whole);
      const stores = await tab.page.evaluate(async () => {
        try {
          return (await indexedDB.databases()).length;
        } catch (error) {
          return error instanceof Error ? error.name : "error";
        }
      });
      expect(stores).not.toBe(1);
      await tab.says("#storage", "Nothing is kept here");
      const key = await tab.key();
      await doesThree(key);
      await tab.says("#fact-accepted", "3");
      expect(await findings(tab.page)).toEqual([]);
      await tab.page.close();
    });

    it("can be installed", async () => {
      const tab = await WorkerTab.open(whole, `${network.url}/worker`);
      await tab.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
      const session = await whole.newCDPSession(tab.page);
      expect((await session.send("Page.getInstallabilityErrors")).installabilityErrors).toEqual([]);
      expect((await session.send("Page.getAppManifest")).errors).toEqual([]);
    });
  });

  it("[JB9] a tab whose files the coordinator has replaced stops taking jobs at once, and asks to be reloaded", async () => {
    // No service worker, as on plain http: nobody has kept the files of the old version.
    network.lose("/worker/tasks-");
    const tab = await WorkerTab.open(context, `${network.url}/worker`);
    await tab.press("Start");
    await tab.shows("Out of date");
    await online(0);
    network.mend();
    await tab.press("Reload");
    await tab.shows("Ready");
    await doesThree(await tab.key());
  });
});
