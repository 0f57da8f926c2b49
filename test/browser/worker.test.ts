import type { Browser, BrowserContext, BrowserContextOptions } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fingerprintWords } from "../../src/receipt/ed25519.ts";
import { verifyReceipt } from "../../src/receipt/receipt.ts";
import type { Job } from "../../src/protocol/job.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { commit, ended, get, post, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { BARE, CHROMIUM, launchChromium, newProfile, WITHOUT } from "./chromium.ts";
import { launchNetwork, type Network } from "./network.ts";
import { askedOrigins, tabComplaints } from "./tab.ts";
import { WorkerTab } from "./worker-tab.ts";

let browser: Browser;
let coordinator: CoordinatorHere;
let network: Network;
let context: BrowserContext;

describe.skipIf(CHROMIUM === undefined)(`a browser worker in Chromium${WITHOUT}`, () => {
  beforeAll(async () => {
    [browser, coordinator] = await Promise.all([launchChromium(), shareCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" })]);
    network = await launchNetwork(coordinator.url);
  });

  const profile = (...options: BrowserContextOptions[]) => newProfile(browser, { permissions: ["clipboard-read", "clipboard-write"] }, ...options);

  afterAll(() => {
    expect(tabComplaints()).toEqual([]);
    expect(askedOrigins()).toEqual([network.url]);
  });

  const open = (path = "/worker") => WorkerTab.open(context, `${network.url}${path}`);

  async function started(): Promise<WorkerTab> {
    const tab = await open();
    await tab.press("Start");
    await tab.shows("Ready");
    return tab;
  }

  const online = (count: number) =>
    until(`${count} workers online`, async () => ((await get(`${coordinator.url}/v1/health`)).body.workers_online === count ? true : undefined));

  async function done(id: string, key: string): Promise<Job> {
    const job = await ended(coordinator.url, id);
    expect(job).toMatchObject({ status: "completed", receipt: { job_id: id, provider_pubkey: key } });
    expect(job.receipt === null ? null : verifyReceipt(job.receipt, job.result)).toEqual({ ok: true });
    return job;
  }

  // Each of these leaves the tab as it found it: a profile and a start of its own would cost 3 s of CPU each.
  describe("that stays, from test to test", () => {
    let tab: WorkerTab;

    beforeAll(async () => {
      context = await profile();
      tab = await started();
    });

    beforeEach(() => tab.shows("Ready"));

    afterAll(async () => {
      await context.close();
      await online(0);
    });

    it("[SPEC, RC1, WS3] does tasks with receipts that hold, and lists them", async () => {
      const key = await tab.key();
      for (const type of ["classify", "summarize", "extract_json"] as const) {
        const id = await commit(coordinator.url, "cheap", task("The market reopened on Sunday. Everyone was happy. Total: EUR 12.50", type));
        await done(id, key);
      }
      await tab.says("#fact-accepted", "3");
      await tab.says("#fact-tier", "Open");
      await tab.says("#network", "eip155:10143", true);
      // The count and the rows are drawn one after the other.
      await until("three accepted rows", async () => ((await tab.page.locator("#jobs li", { hasText: "Accepted" }).count()) === 3 ? true : undefined));
      const rows = await tab.page.locator("#jobs li").allTextContents();
      for (const [i, name] of ["Extraction", "Summary", "Sentiment"].entries()) {
        expect(rows[i]).toMatch(new RegExp(`^${name}Accepted.* ms|^${name}Accepted.* s`));
        expect(rows[i]).toMatch(/sha256:[0-9a-f]{8}….* · signature checked$/);
      }
      const words = (await tab.page.locator("#words li").allTextContents()).join(" ");
      expect(words).toBe(fingerprintWords(key).join(" "));
    });

    it("[SPEC] exports its receipts as a file that anyone can check", async () => {
      const before = Number(await tab.text("#fact-accepted"));
      const key = await tab.key();
      const id = await commit(coordinator.url, "cheap", task("Good.", "classify"));
      const job = await done(id, key);
      await tab.says("#fact-accepted", String(before + 1), true);
      const [download] = await Promise.all([tab.page.waitForEvent("download"), tab.press("Export")]);
      const chunks: Buffer[] = [];
      for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
      const file = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
      expect(file).toMatchObject({
        provider_pubkey: key,
        jobs: expect.arrayContaining([
          expect.objectContaining({ job_id: id, task_type: "classify", outcome: "accepted", signature_valid: true, receipt: job.receipt }),
        ]),
      });
      expect(file["jobs"]).toHaveLength(before + 1);
      // Of the text itself nothing is kept.
      expect(JSON.stringify(file)).not.toContain("Good.");
      // The list is not deleted before a person has said so.
      await Promise.all([tab.page.waitForEvent("dialog").then((dialog) => dialog.dismiss()), tab.press("Clear")]);
    });

    it("[WS3] has a key that the page cannot export, and keeps it for the next visit", async () => {
      const key = await tab.key();
      const reading = await tab.page.evaluate(async () => {
        const database = await new Promise<IDBDatabase>((resolve) => {
          const opening = indexedDB.open("compute-router-worker");
          opening.addEventListener("success", () => resolve(opening.result));
        });
        const pair = await new Promise<CryptoKeyPair>((resolve) => {
          const asking = database.transaction("values").objectStore("values").get("key");
          asking.addEventListener("success", () => resolve(asking.result as CryptoKeyPair));
        });
        const exported = await crypto.subtle.exportKey("pkcs8", pair.privateKey).then(
          () => "readable",
          (error: Error) => error.name,
        );
        return { extractable: pair.privateKey.extractable, exported };
      });
      expect(reading).toEqual({ extractable: false, exported: "InvalidAccessError" });
      await tab.says("#custody", "No script can read the private part");
      await tab.page.close();
      tab = await open();
      expect(await tab.key()).toBe(key);
    });

    it("[WS4, JB9] reconnects after the network was cut, and does the job that waited", async () => {
      const key = await tab.key();
      network.cut();
      await tab.shows("Reconnecting");
      await context.setOffline(true);
      await tab.shows("Paused");
      await tab.says("#state-detail", "no network");
      const id = await commit(coordinator.url, "cheap", task("While you were away.", "classify"));
      network.mend();
      await context.setOffline(false);
      // The return of the network ends the wait for the next try.
      await tab.shows("Ready");
      await done(id, key);
    });

    it("[WS11] Stop finishes the running job and disconnects; the worker stays off at the next visit", async () => {
      const key = await tab.key();
      const id = await commit(coordinator.url, "cheap", task("Name: Anna\nTotal: EUR 12.50\n\n".repeat(8_000), "summarize"));
      await until("running", async () => ((await get(`${coordinator.url}/v1/jobs/${id}`)).body.status === "pending" ? undefined : true));
      await tab.press("Stop");
      await tab.shows("Off");
      await done(id, key);
      await online(0);
      await tab.page.reload();
      await tab.shows("Off");
      await tab.press("Start");
      await tab.shows("Ready");
      // The second click of a double click does not start it again.
      await tab.page.getByRole("button", { name: "Stop", exact: true }).dblclick();
      await tab.shows("Off");
      expect(await tab.page.evaluate(() => localStorage.getItem("compute-router-worker"))).toContain('"wanted":false');
      await tab.press("Start");
      await tab.shows("Ready");
    });

    it("[WS11] pauses while its page is hidden, if its owner chose that, and says so", async () => {
      await tab.page.getByLabel("Work while the page is hidden").uncheck();
      await hide(tab, true);
      await tab.shows("Paused");
      await tab.says("#state-detail", "hidden");
      await online(0);
      await hide(tab, false);
      await tab.shows("Ready");
    });
  });

  describe("of a new profile", () => {
    // The tab that stays has a service worker, and so has the last test here. The others are about what it has no part in.
    beforeEach(async () => {
      network.mend();
      context = await profile(BARE);
    });

    afterEach(async () => {
      await context.close();
      await online(0);
    });

    it("[SPEC trust, TR4, JB8] is paired by a link with a code, and then does that user's PRIVATE jobs, but no LLM ones", async () => {
      const user = "owner-of-a-phone";
      const { body } = await post(`${coordinator.url}/v1/trust/create`, { user_id: user });
      const tab = await open(`/worker?code=${String(body.pairing_code).toLowerCase()}`);
      expect(await tab.page.inputValue("#code")).toBe(body.pairing_code);
      expect(tab.page.url()).toBe(`${network.url}/worker`);
      await tab.press("Start");
      await tab.shows("Ready");
      await tab.press("Pair");
      await tab.says("#pair-result", "Paired.");
      await tab.says("#pairings", `Code ${String(body.pairing_code)}`);
      const key = await tab.key();
      expect((await get(`${coordinator.url}/v1/trust/list?user_id=${user}`)).body).toMatchObject({ providers: [{ provider_pubkey: key }] });
      await done(await commit(coordinator.url, "cheap", { ...task("Mine alone, and I love it.", "classify"), user_id: user, privacy_class: "PRIVATE" }), key);
      const llm = { job_type: "LLM_INFER", user_id: user, privacy_class: "PRIVATE", payload: { prompt: "Hello?" } };
      expect(await post(`${coordinator.url}/v1/jobs/commit/fast`, llm)).toMatchObject({ status: 422, body: { error: "no_trusted_worker" } });

      await tab.page.fill("#code", String(body.pairing_code));
      await tab.press("Pair");
      await tab.says("#pair-result", "This code has been used.");
      await tab.page.fill("#code", "12-34");
      await tab.press("Pair");
      await tab.says("#pair-result", "six characters");
      expect(await tab.page.getAttribute("#code", "aria-invalid")).toBe("true");
      await tab.page.reload();
      await tab.says("#pairings", `Code ${String(body.pairing_code)}`);
    });

    it("[WS10] keeps a result without an acknowledgement when its tab is closed, and sends it at the next visit", async () => {
      const tab = await started();
      const key = await tab.key();
      network.swallow();
      const id = await commit(coordinator.url, "cheap", task("Nobody hears me.", "classify"));
      await tab.says("#jobs", "Not yet confirmed");
      await tab.says("#state-detail", "One finished result is kept");
      network.cut();
      await tab.page.close();
      network.mend();
      const again = await open();
      await again.says("#jobs", "Accepted");
      const { receipt } = await done(id, key);
      const kept = await again.page.locator("#jobs li").first().textContent();
      expect(kept).toContain(receipt?.output_hash.slice(0, 15));
      expect(await again.page.locator("#jobs li").count()).toBe(1);
    });

    it("[WS10, JB9] a tab that is closed during a job loses nothing: opened again, it starts by itself and the job is done", async () => {
      const tab = await started();
      const key = await tab.key();
      // The task never reaches its thread, so the job cannot end before the tab does.
      const engine = tab.page.workers().find((worker) => worker.url().includes("/engine-")) ?? expect.unreachable();
      await engine.evaluate(() => {
        Worker.prototype.postMessage = () => undefined;
      });
      const id = await commit(coordinator.url, "cheap", task("Half way.", "classify"));
      await until("running", async () => ((await get(`${coordinator.url}/v1/jobs/${id}`)).body.status === "running" ? true : undefined));
      await tab.shows("Working");
      await tab.kept(1);
      await tab.page.close();
      const again = await open();
      await again.shows("Ready");
      await done(id, key);
      const ends = async () => (await again.page.locator("#jobs li").allTextContents()).map((row) => row.replace(/^Sentiment(Accepted|Cancelled).*$/, "$1"));
      // The coordinator has the result a moment before the tab has its acknowledgement.
      await expect.poll(ends).toEqual(["Accepted", "Cancelled"]);
    });

    it("[WS7] only one tab works: another one says so and can take over, and the one that has lost its place neither hears its old engine nor switches the worker off", async () => {
      await context.addInitScript(() => {
        const engines: Worker[] = [];
        const Watched = class extends Worker {
          constructor(url: string | URL, options?: WorkerOptions) {
            super(url, options);
            engines.push(this);
          }
        };
        Object.assign(globalThis, { engines, Worker: Watched });
      });
      const first = await started();
      const key = await first.key();
      let second = await open();
      await second.says("#other-title", "Another tab runs this worker");
      expect(await second.text("#state-title")).toBe("");

      // A tab that loses its place while it pairs can pair again when it is the worker again.
      network.swallow();
      await first.page.getByLabel("Pairing code").fill("A1B2C3");
      await first.press("Pair");
      await first.says("#pair-result", "Asking the coordinator.");
      expect(await first.page.title()).toBe("Ready · Compute Router worker");
      await second.press("Take over here");
      await first.says("#other-title", "Another tab has taken over");
      expect(await first.page.title()).toBe("Worker · Compute Router");
      expect(await first.page.locator("#live").textContent()).toBe("");
      network.mend();
      await second.page.close();
      await first.says("#pair-result", "No answer");
      await first.shows("Ready");
      await first.press("Pair");
      await first.says("#pair-result", "There is no such code");
      expect(await first.text("#pair-result")).toContain(`made at ${new URL(network.url).host}.`);

      second = await open();
      await second.says("#other-title", "Another tab runs this worker");
      await second.press("Take over here");
      await first.says("#other-title", "Another tab has taken over");
      await second.shows("Ready");
      expect(await second.key()).toBe(key);
      await online(1);
      // An engine whose thread was frozen learns that it was replaced before it reads that it should stop.
      const stored = await first.page.evaluate(() => {
        const link = { kind: "ended", reason: "replaced", message: "another worker with the same key has connected" };
        const report = { link, leaving: false, job: null, unacknowledged: 0, clock: null };
        const engines: Worker[] = Reflect.get(globalThis, "engines");
        engines.at(-1)?.dispatchEvent(new MessageEvent("message", { data: { type: "report", report } }));
        return localStorage.getItem("compute-router-worker");
      });
      expect(JSON.parse(stored ?? "null")).toMatchObject({ wanted: true });
      await done(await commit(coordinator.url, "cheap", task("Who?", "classify")), key);
      await second.says("#fact-accepted", "1");
      await second.page.close();
      await first.shows("Ready");
      await first.says("#fact-accepted", "1");

      // A tab that becomes the worker goes by what the owner has chosen in the other one since.
      second = await open();
      await second.says("#other-title", "Another tab runs this worker");
      await first.press("Stop");
      await first.shows("Off");
      await first.page.close();
      await second.shows("Off");
      await online(0);
    });

    it("when its engine crashes it leaves the coordinator and lets the screen turn off, and a reload helps", async () => {
      await context.addInitScript(() => {
        const held = new Set<EventTarget>();
        const engines: Worker[] = [];
        const Watched = class extends Worker {
          constructor(url: string | URL, options?: WorkerOptions) {
            super(url, options);
            engines.push(this);
          }
        };
        const request = () => {
          const sentinel = Object.assign(new EventTarget(), {
            release: () => {
              held.delete(sentinel);
              sentinel.dispatchEvent(new Event("release"));
              return Promise.resolve();
            },
          });
          held.add(sentinel);
          return Promise.resolve(sentinel);
        };
        Object.assign(globalThis, { held, engines, Worker: Watched });
        Object.defineProperty(navigator, "wakeLock", { value: { request } });
      });
      const tab = await started();
      const held = () => tab.page.evaluate(() => (Reflect.get(globalThis, "held") as Set<EventTarget>).size);
      expect(await held()).toBe(1);
      await tab.page.evaluate(() => (Reflect.get(globalThis, "engines") as Worker[])[0]?.dispatchEvent(new ErrorEvent("error", { message: "out of memory" })));
      await tab.shows("Cannot work here");
      expect(await held()).toBe(0);
      await online(0);
      await tab.page.getByLabel("Pairing code").fill("A1B2C3");
      await tab.press("Pair");
      await tab.says("#pair-result", "No answer");
      await tab.press("Reload");
      await tab.shows("Ready");
    });

    it("[JB9] a crash of the thread that runs the tasks is not one of the worker", async () => {
      const tab = await open();
      const key = await tab.key();
      const engine = tab.page.workers().find((worker) => worker.url().includes("/engine-")) ?? expect.unreachable();
      // The program of a page throws in a thread, where there is no document.
      const program = await tab.page.evaluate(() => document.querySelector<HTMLScriptElement>("script[src]")?.src ?? "");
      await engine.evaluate((crashing) => {
        const Real = Worker;
        let starts = 0;
        Object.assign(globalThis, {
          Worker: class extends Real {
            constructor(url: string | URL, options?: WorkerOptions) {
              super(starts++ === 0 ? crashing : url, options);
            }
          },
        });
      }, program);
      await tab.press("Start");
      await tab.shows("Ready");
      await done(await commit(coordinator.url, "cheap", task("Again.", "classify")), key);
      await tab.says("#jobs", "Accepted");
      await tab.shows("Ready");
    });

    it("works offline after the first visit", async () => {
      await context.close();
      context = await profile();
      const tab = await open();
      await tab.key();
      await tab.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
      network.cut();
      await tab.page.reload();
      const key = await tab.key();
      await tab.press("Start");
      await tab.says("#state-title", "onnecting");
      network.mend();
      await tab.shows("Ready");
      expect(await tab.key()).toBe(key);
    });
  });
});

/** Headless tabs are never hidden: what the browser would say is said for it. */
async function hide(tab: WorkerTab, hidden: boolean): Promise<void> {
  await tab.page.evaluate(
    (state) => {
      Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
      document.dispatchEvent(new Event("visibilitychange"));
    },
    hidden ? "hidden" : "visible",
  );
}
