// The DOM helpers of all pages.

/** The element with this id and type. @throws TypeError if the page does not have it */
export function element<T extends Element>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`the page has no ${kind.name} #${id}`);
  return found;
}

/** Makes an element with a class and text. The text is never parsed as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.textContent = text;
  return made;
}

/** Makes a `time` element for people and machines. */
export function makeTime(at: Date, text: string): HTMLTimeElement {
  const time = make("time", "", text);
  time.dateTime = at.toISOString();
  return time;
}

/** Sets a text only if it differs, because a screen reader would read a live region again. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** Shows a message to a person, with the colour of its tone. */
export function showMessage(target: HTMLElement, text: string, tone: "good" | "bad" | null): void {
  setText(target, text);
  target.dataset["tone"] = tone ?? "";
}

/**
 * Call this before you disable or hide the focused element, or an element around it: the browser then drops the focus, and a person at a keyboard would start
 * again at the top of the page. The returned function moves the focus to `next` if it was dropped; only its first call does anything.
 */
export function keepFocus(around: Element): (next: HTMLElement) => void {
  let wasHere = around.contains(document.activeElement);
  return (next) => {
    const holder = document.activeElement;
    const isLost = holder === null || holder === document.body || holder.matches(":disabled") || !holder.checkVisibility();
    if (wasHere && isLost) next.focus();
    wasHere = false;
  };
}

/** How long a button says that it has copied. */
const COPIED_MS = 2_000;

/**
 * Makes a button copy a text to the clipboard, and say for a moment whether the browser allowed it. Browsers allow it on secure pages only, so the button is
 * hidden on others.
 */
export function copyOnClick(button: HTMLButtonElement, text: () => string): void {
  button.hidden = !isSecureContext;
  const label = button.textContent ?? "";
  const say = (outcome: string) => {
    setText(button, outcome);
    setTimeout(() => setText(button, label), COPIED_MS);
  };
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(text()).then(
      () => say("Copied"),
      () => say("Not allowed"),
    );
  });
}

/** Downloads a JSON file. */
export function saveFile(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
