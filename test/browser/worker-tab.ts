import type { BrowserContext } from "playwright-core";
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
}
