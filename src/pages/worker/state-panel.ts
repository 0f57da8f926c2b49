// The panels of the worker page about the worker itself: its state, its key, its storage, and its events.
import type { WorkerIdentity } from "../../worker/browser/identity.ts";
import type { JobRecord } from "../../worker/browser/history.ts";
import type { StorageState } from "../../worker/browser/kept-store.ts";
import type { Report } from "../../worker/browser/report.ts";
import { copyOnClick, element, keepFocus, make, makeTime, setText } from "../shell/dom.ts";
import { duration, medianTime, type Situation, type View, viewOf } from "./view.ts";

/** A job is shown for at least this long, because many jobs end faster than an eye can see. */
const SHOWN_MS = 700;

/** The big card: lamp, state, one button, three numbers. */
export class StatePanel {
  readonly #card = element("state", HTMLElement);
  readonly #title = element("state-title", HTMLElement);
  readonly #detail = element("state-detail", HTMLElement);
  readonly #button = element("act", HTMLButtonElement);
  readonly #live = element("live", HTMLElement);
  readonly #accepted = element("fact-accepted", HTMLElement);
  readonly #time = element("fact-time", HTMLElement);
  readonly #tier = element("fact-tier", HTMLElement);
  /** The title of the page before it shows a state. */
  readonly #pageTitle = document.title;
  #lastJob: { job: NonNullable<Report["job"]>; until: number } | null = null;

  constructor(onAct: (act: View["button"]["act"]) => void) {
    this.#button.addEventListener("click", ({ detail: clicks }) => {
      // The second click of a double click: the button may mean the opposite by then.
      if (clicks > 1) return;
      const act = this.#button.dataset["act"];
      if (act === "start" || act === "rest" || act === "stop" || act === "reload") onAct(act);
    });
  }

  /** Shows the state. Returns the ms after which it must be shown again, or null. */
  show(situation: Situation): number | null {
    const { report, now } = situation;
    if (report.job !== null && report.job.jobId !== this.#lastJob?.job.jobId) this.#lastJob = { job: report.job, until: now + SHOWN_MS };
    const last = this.#lastJob;
    const lingering = report.job === null && last !== null && now < last.until ? last : null;
    const view = viewOf(lingering === null ? situation : { ...situation, report: { ...report, job: lingering.job } });
    this.#card.dataset["tone"] = view.tone;
    setText(this.#title, view.title);
    setText(this.#detail, view.detail);
    setText(this.#button, view.button.label);
    setText(this.#live, view.announce);
    this.#button.dataset["act"] = view.button.act;
    this.#button.disabled = false;
    setText(this.#tier, report.link.kind === "online" ? (report.link.tier ?? "–") : "–");
    document.title = `${view.title} · Compute Router worker`;
    return lingering === null ? null : lingering.until - now;
  }

  /** Says nothing about a worker any more, because another tab runs it. */
  clear(): void {
    document.title = this.#pageTitle;
    setText(this.#live, "");
  }

  /** Shows the totals. */
  count(delivered: number, records: readonly JobRecord[]): void {
    const median = medianTime(records);
    setText(this.#accepted, String(delivered));
    setText(this.#time, median === null ? "–" : duration(median));
  }

  /** Shows that the engine has crashed. Only a reload helps. */
  broken(message: string): void {
    this.#card.dataset["tone"] = "bad";
    setText(this.#title, "Cannot work here");
    setText(this.#detail, message);
    setText(this.#live, `Cannot work here. ${message}`);
    setText(this.#button, "Reload");
    this.#button.dataset["act"] = "reload";
    this.#button.disabled = false;
  }
}

/** The worker's key in words and hex, and how the browser stores it. */
export class IdentityPanel {
  readonly #words = element("words", HTMLElement);
  readonly #key = element("public-key", HTMLElement);
  readonly #custody = element("custody", HTMLElement);
  readonly #isSecure: boolean;

  constructor(isSecure: boolean) {
    this.#isSecure = isSecure;
    copyOnClick(element("copy-key", HTMLButtonElement), () => this.#key.textContent ?? "");
  }

  /** Shows the identity; `isKept` is true if the key is on disk. */
  show(identity: WorkerIdentity, isKept: boolean): void {
    this.#words.replaceChildren(...identity.words.map((word) => make("li", "", word)));
    setText(this.#key, identity.publicKey);
    setText(this.#custody, custodyText(identity, isKept, this.#isSecure));
  }
}

function custodyText({ custody }: WorkerIdentity, isKept: boolean, isSecure: boolean): string {
  const gone = isKept ? "" : " It is not stored now: the key is lost when the page is closed.";
  if (custody === "locked")
    return `This browser created the key and signs with it. No script can read the private part. Clearing this site's data deletes it.${gone}`;
  const why = isSecure ? "This browser has no Ed25519 of its own" : "Over plain http the browser has no key store";
  return `${why}: the private key is stored in this site's storage, where it can be read. Everyone who can read it can act as this worker.${gone}`;
}

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
    const moveFocus = keepFocus(this.#card);
    element("store-again", HTMLElement).hidden = notice?.isOffering !== true;
    this.#card.hidden = notice === null;
    moveFocus(element("main", HTMLElement));
  }
}

const WHEN = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const KEPT = 50;

/** Events that the state does not show, newest first. */
export class EventsPanel {
  readonly #list = element("events", HTMLElement);
  readonly #none = element("no-events", HTMLElement);

  add({ at, tone, text }: { at: number; tone: "info" | "warning"; text: string }): void {
    const row = make("li", tone);
    row.append(makeTime(new Date(at), WHEN.format(at)), text);
    this.#list.prepend(row);
    while (this.#list.childElementCount > KEPT) this.#list.lastElementChild?.remove();
    this.#none.hidden = true;
  }
}
