import type { StorageState } from "../../worker/browser/kept-store.ts";
import { element, setText } from "../shell/dom.ts";

/** The notice about a storage that does not keep everything; null if there is nothing to report. */
export function storageNotice(state: StorageState): { title: string; text: string; isOffering: boolean } | null {
  switch (state) {
    case "kept":
    // The state panel shows this, because the worker has stopped.
    case "outdated":
      return null;
    case "cleared":
      return {
        title: "This site's data was deleted",
        text: "The worker continues with the key in memory. When this page is closed or reloaded, the key is lost: this browser becomes a new worker, and users must pair again.",
        isOffering: true,
      };
    case "full":
      return {
        title: "The storage of this browser is full",
        text: "The worker continues in memory. Its new results are lost when this page is closed. Free some space: the page stores everything as soon as there is room.",
        isOffering: false,
      };
    case "failed":
      return {
        title: "This browser's storage does not answer",
        text: "The worker continues in memory. Leave this page open: it stores everything as soon as the storage answers. If that does not happen, restart the browser.",
        isOffering: false,
      };
    case "blocked":
      return {
        title: "Nothing is kept here",
        text: "This browser stores nothing for this site, perhaps because the window is private. The worker works, but its key, its pairings and its receipts are lost when this page is closed.",
        isOffering: false,
      };
    default:
      return state satisfies never;
  }
}

/** The notice above everything else, and the button that stores a deleted worker again. */
export class StoragePanel {
  readonly #card = element("storage", HTMLElement);

  constructor(onStoreAgain: () => void) {
    element("store-again", HTMLButtonElement).addEventListener("click", onStoreAgain);
  }

  show(state: StorageState): void {
    const notice = storageNotice(state);
    setText(element("storage-title", HTMLElement), notice?.title ?? "");
    setText(element("storage-text", HTMLElement), notice?.text ?? "");
    element("store-again", HTMLElement).hidden = notice?.isOffering !== true;
    this.#card.hidden = notice === null;
  }
}
