import { element, make, makeTime } from "./elements.ts";

const WHEN = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const KEPT = 50;

/** What happened that the state does not show, newest first. */
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
