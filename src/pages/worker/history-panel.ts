// The list of jobs and receipts on the worker page, with its export.
import { shortJobId } from "../../protocol/text.ts";
import type { JobRecord } from "../../worker/browser/history.ts";
import { element, keepFocus, make, makeTime } from "../shell/dom.ts";
import { duration, outcomeLabel, receiptLine, taskName } from "./view.ts";

const TODAY = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const BEFORE = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "short" });
const PAGE = 6;
/** Pause between two redraws, because dozens of jobs per second may arrive. */
const DRAW_MS = 150;

/** The worker's list of jobs and receipts. */
export class HistoryPanel {
  readonly #card = element("history", HTMLElement);
  readonly #list = element("jobs", HTMLElement);
  readonly #none = element("no-jobs", HTMLElement);
  readonly #more = element("more", HTMLButtonElement);
  readonly #buttons = [element("export", HTMLButtonElement), element("clear", HTMLButtonElement)] as const;
  /** Newest first. */
  #records: JobRecord[] = [];
  #shown = PAGE;
  #drawing = false;

  constructor(hooks: { onExport: (records: readonly JobRecord[]) => void; onClear: () => void }) {
    const [exporting, clearing] = this.#buttons;
    exporting.addEventListener("click", () => hooks.onExport(this.#records));
    clearing.addEventListener("click", () => {
      // eslint-disable-next-line no-alert -- every assistive technology supports the browser's own dialog.
      if (confirm("Delete the list of jobs and receipts on this device? Export it first if you may need it.")) hooks.onClear();
    });
    this.#more.addEventListener("click", () => {
      this.#shown += PAGE * 8;
      this.#draw();
    });
  }

  get records(): readonly JobRecord[] {
    return this.#records;
  }

  /** Shows these, newest first. */
  set(records: readonly JobRecord[]): void {
    this.#records = [...records];
    this.#draw();
  }

  /** Shows a job that is new or has changed; the list keeps `limit` jobs. */
  put(record: JobRecord, limit: number): void {
    const at = this.#records.findIndex(({ jobId, attempt }) => jobId === record.jobId && attempt === record.attempt);
    if (at === -1) this.#records = [record, ...this.#records].slice(0, limit);
    else this.#records[at] = record;
    if (this.#drawing) return;
    this.#drawing = true;
    setTimeout(() => {
      this.#drawing = false;
      this.#draw();
    }, DRAW_MS);
  }

  #draw(): void {
    const moveFocus = keepFocus(this.#card);
    const rows = this.#records.slice(0, this.#shown);
    this.#list.replaceChildren(...rows.map(rowOf));
    this.#none.hidden = rows.length > 0;
    this.#more.hidden = this.#records.length <= this.#shown;
    for (const button of this.#buttons) button.disabled = rows.length === 0;
    moveFocus(this.#card);
  }
}

function rowOf(record: JobRecord): HTMLElement {
  const row = make("li", "");
  const { tone, label } = outcomeLabel(record);
  const outcome = make("span", "outcome", label);
  outcome.dataset["tone"] = tone;
  const started = new Date(record.startedAt);
  const when = make("span", "when");
  when.append(makeTime(started, (isToday(started) ? TODAY : BEFORE).format(started)), ` · job ${shortJobId(record.jobId)}`);
  row.append(
    line(make("span", "type", taskName(record.taskType)), outcome),
    line(when, make("span", "took", record.ms === null ? "" : duration(record.ms))),
    make("p", "receipt", receiptLine(record)),
  );
  return row;
}

function line(...parts: HTMLElement[]): HTMLElement {
  const made = make("p", "line");
  made.append(...parts);
  return made;
}

function isToday(at: Date): boolean {
  return at.toDateString() === new Date().toDateString();
}
