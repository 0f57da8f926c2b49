import type { BrowserContext } from "playwright-core";
import { until } from "../support/until.ts";
import { openPage, Tab } from "./tab.ts";

/** The worker page in a tab, as a person sees it. */
export class WorkerTab extends Tab {
  static async open(context: BrowserContext, url: string): Promise<WorkerTab> {
    return new WorkerTab(await openPage(context, url));
  }

  /** Waits until the big card has this title. */
  async shows(title: string): Promise<void> {
    await this.says("#state-title", title, true);
  }

  /** The worker's public key. */
  async key(): Promise<string> {
    return await this.filled("#public-key");
  }

  /** Waits until the browser's storage has `count` jobs of the history. The list shows a job before it is there, and a tab that is closed then leaves no trace. */
  async kept(count: number): Promise<void> {
    await until(`${count} kept jobs`, async () => ((await this.page.evaluate(countKeptJobs)) === count ? true : undefined));
  }
}

/** Runs in the page. */
async function countKeptJobs(): Promise<number> {
  const answerOf = async <T>(request: IDBRequest<T>) =>
    await new Promise<T>((resolve, reject) => {
      request.addEventListener("success", () => resolve(request.result));
      request.addEventListener("error", () => reject(request.error ?? new Error("no answer")));
    });
  const database = await answerOf(indexedDB.open("compute-router-worker"));
  const count = await answerOf(database.transaction("history").objectStore("history").count());
  database.close();
  return count;
}
