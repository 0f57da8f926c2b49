// What the scripts of all pages do to the document.

/** The element with this id, of this kind. A page without it is broken, so it throws. */
export function element<T extends Element>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`the page has no ${kind.name} #${id}`);
  return found;
}

/** A new element with a class and text; text is never read as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.textContent = text;
  return made;
}

/** A point in time, readable for people and machines. */
export function makeTime(at: Date, text: string): HTMLTimeElement {
  const time = make("time", "", text);
  time.dateTime = at.toISOString();
  return time;
}

/** Sets the text only where it changes: a live region would be read again. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** Gives the owner a JSON file. */
export function saveFile(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
