// The panel of the pair page with the workers that the user has paired with.
import { fingerprintWords } from "../../receipt/ed25519.ts";
import type { TrustList } from "../../sdk/index.ts";
import { element, keepFocus, make, makeTime, showMessage } from "../shell/dom.ts";

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** The list of workers that the user has paired with. */
export class WorkersPanel {
  readonly #list = element("workers", HTMLElement);
  readonly #note = element("no-workers", HTMLElement);
  readonly #again = element("refresh", HTMLButtonElement);
  #moveFocus: (next: HTMLElement) => void = () => {};

  constructor(onRefresh: () => void) {
    this.#again.addEventListener("click", onRefresh);
  }

  /** There is no user id yet. */
  idle(): void {
    this.#again.disabled = true;
    this.#list.replaceChildren();
    this.#say("No user id yet.", null);
  }

  /** The request for the list was sent. */
  asking(): void {
    this.#moveFocus = keepFocus(this.#again);
    this.#again.disabled = true;
  }

  /** Shows the workers in the order of the coordinator: newest first. */
  show({ providers }: TrustList): void {
    this.#again.disabled = false;
    this.#moveFocus(this.#again);
    this.#list.replaceChildren(
      ...providers.map(({ provider_pubkey, paired_at }) => {
        const row = make("li", "");
        const words = make("ol", "words");
        words.append(...fingerprintWords(provider_pubkey).map((word) => make("li", "", word)));
        const since = make("p", "hint", "Paired ");
        since.append(makeTime(new Date(paired_at), WHEN.format(new Date(paired_at))));
        row.append(words, make("code", "", provider_pubkey), since);
        return row;
      }),
    );
    this.#say(providers.length === 0 ? "None yet. A worker that claims your code is listed here." : "", null);
  }

  /** The list could not be loaded. */
  failed(text: string): void {
    this.#again.disabled = false;
    this.#moveFocus(this.#again);
    this.#say(text, "bad");
  }

  #say(text: string, tone: "bad" | null): void {
    showMessage(this.#note, text, tone);
    this.#note.hidden = text === "";
  }
}
