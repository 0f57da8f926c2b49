// The form for a pairing code on the worker page, and the list of pairings. PRIVATE jobs come from paired users only.
import { PAIRING_CODE } from "../../protocol/text.ts";
import type { Pairing } from "../../worker/browser/report.ts";
import { element, keepFocus, make, makeTime, showMessage } from "../shell/dom.ts";
import { editCode, readCode } from "./pairing-code.ts";

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** The form for a pairing code, and the list of pairings. */
export class PairPanel {
  readonly #code = element("code", HTMLInputElement);
  readonly #button = element("pair", HTMLButtonElement);
  readonly #result = element("pair-result", HTMLElement);
  readonly #list = element("pairings", HTMLElement);
  #sent: string | null = null;
  /** True if the worker is started. */
  #isOn = false;
  #saysPaired = false;
  #moveFocus: (next: HTMLElement) => void = () => {};

  constructor(onPair: (code: string) => void) {
    this.#code.addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text");
      if (text === undefined || text === "") return;
      event.preventDefault();
      this.fill(text);
    });
    this.#code.addEventListener("input", () => {
      const { value, selectionStart } = this.#code;
      const edit = editCode(value, selectionStart ?? value.length);
      // A new value moves the caret to its end.
      if (edit.code !== value) {
        this.#code.value = edit.code;
        this.#code.setSelectionRange(edit.caret, edit.caret);
      }
      this.#sayDropped(edit.droppedOther);
    });
    element("pair-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      const code = readCode(this.#code.value);
      if (!PAIRING_CODE.test(code)) {
        this.#say("A code has six characters, 0 to 9 and A to F.", "bad");
        this.#code.focus();
        return;
      }
      this.#sent = code;
      this.#moveFocus = keepFocus(this.#button);
      this.#button.disabled = true;
      this.#say("Asking the coordinator.", null);
      onPair(code);
    });
  }

  /** Fills in a code from a link or the clipboard. A person must press the button. */
  fill(text: string): void {
    const { code, droppedOther } = editCode(text, text.length);
    this.#code.value = code;
    this.#sayDropped(droppedOther);
  }

  /** Moves the focus to the field, and the field to the middle of the screen: at its lower edge the button would be out of sight on a phone. */
  focus(): void {
    this.#code.focus();
    this.#code.scrollIntoView({ block: "center" });
  }

  /** Shows the pairings, and a message if the sent code is among them. */
  show(pairings: readonly Pairing[]): void {
    this.#list.replaceChildren(
      ...pairings.map(({ code, pairedAt }) => {
        const row = make("li", "");
        row.append(make("span", "", `Code ${code}`), makeTime(new Date(pairedAt), WHEN.format(new Date(pairedAt))));
        return row;
      }),
    );
    if (this.#sent === null || !pairings.some(({ code }) => code === this.#sent)) return;
    this.#sent = null;
    this.#code.value = "";
    this.#button.disabled = false;
    this.#moveFocus(this.#button);
    this.#sayPaired();
  }

  /** Follows whether the worker is started, because a PRIVATE job fails while its only worker is off. */
  follow(isOn: boolean): void {
    this.#isOn = isOn;
    if (this.#saysPaired) this.#sayPaired();
  }

  /** Shows why a claim was refused. */
  fail(message: string): void {
    this.#sent = null;
    this.#button.disabled = false;
    this.#say(message, "bad");
    this.#code.focus();
  }

  /** The engine that was to claim the code is gone, so nobody will answer. */
  interrupted(): void {
    if (this.#sent !== null) this.fail("No answer. Check whether the list shows the code; if it does not, reload the page and try again.");
  }

  #sayDropped(isDropped: boolean): void {
    this.#say(isDropped ? "A code has only 0 to 9 and A to F." : "", null);
  }

  #sayPaired(): void {
    const use = this.#isOn
      ? "This worker may now do that user's PRIVATE jobs."
      : "This worker is off: press Start, so that it can do that user's PRIVATE jobs.";
    this.#say(`Paired. ${use} The user sees the words of its key: compare them.`, "good");
    this.#saysPaired = true;
  }

  #say(text: string, tone: "good" | "bad" | null): void {
    this.#saysPaired = false;
    showMessage(this.#result, text, tone);
    this.#code.setAttribute("aria-invalid", String(tone === "bad"));
  }
}
