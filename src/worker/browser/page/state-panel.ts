import type { JobRecord } from "../engine/job-record.ts";
import type { Report } from "../engine/report.ts";
import { element, setText } from "./elements.ts";
import { duration, medianTime } from "./format.ts";
import { type Situation, type View, viewOf } from "./view.ts";

/** A job is often done in less time than an eye needs: it is shown for at least this long. */
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
  #lastJob: { job: NonNullable<Report["job"]>; until: number } | null = null;

  constructor(onAct: (act: View["button"]["act"]) => void) {
    this.#button.addEventListener("click", () => {
      const act = this.#button.dataset["act"];
      if (act === "start" || act === "rest" || act === "stop" || act === "reload") onAct(act);
    });
  }

  /** Shows the state; gives the ms after which to show it again because something shown ends then, or null. */
  show(situation: Situation): number | null {
    const { report, now } = situation;
    if (report.job !== null && report.job.jobId !== this.#lastJob?.job.jobId) this.#lastJob = { job: report.job, until: now + SHOWN_MS };
    const lingers = report.job === null && this.#lastJob !== null && now < this.#lastJob.until;
    const view = viewOf(lingers && this.#lastJob !== null ? { ...situation, report: { ...report, job: this.#lastJob.job } } : situation);
    this.#card.dataset["tone"] = view.tone;
    setText(this.#title, view.title);
    setText(this.#detail, view.detail);
    setText(this.#button, view.button.label);
    setText(this.#live, view.announce);
    this.#button.dataset["act"] = view.button.act;
    this.#button.disabled = false;
    setText(this.#tier, report.link.kind === "online" ? (report.link.tier ?? "–") : "–");
    document.title = `${view.title} · Compute Router worker`;
    return lingers && this.#lastJob !== null ? this.#lastJob.until - now : null;
  }

  /** Shows what was done so far. */
  count(delivered: number, records: readonly JobRecord[]): void {
    const median = medianTime(records);
    setText(this.#accepted, String(delivered));
    setText(this.#time, median === null ? "–" : duration(median));
  }

  /** The engine is gone for good; only a reload helps. */
  broken(message: string): void {
    this.#card.dataset["tone"] = "bad";
    setText(this.#title, "Cannot work here");
    setText(this.#detail, message);
    setText(this.#live, `Cannot work here. ${message}`);
    this.#button.disabled = true;
  }
}
