import type { WorkerIdentity } from "../engine/messages.ts";
import { element, make, setText } from "./elements.ts";

const COPIED_MS = 2_000;

/** Who this worker is, and where its key lies. */
export class IdentityPanel {
  readonly #words = element("words", HTMLElement);
  readonly #key = element("public-key", HTMLElement);
  readonly #custody = element("custody", HTMLElement);
  readonly #copy = element("copy-key", HTMLButtonElement);
  readonly #isSecure: boolean;

  constructor(isSecure: boolean) {
    this.#isSecure = isSecure;
    // The clipboard is for secure pages only.
    this.#copy.hidden = !isSecure;
    this.#copy.addEventListener("click", () => void this.#copyKey());
  }

  /** `isKept` says whether the key is on disk. */
  show(identity: WorkerIdentity, isKept: boolean): void {
    this.#words.replaceChildren(...identity.words.map((word) => make("li", "", word)));
    setText(this.#key, identity.publicKey);
    setText(this.#custody, custodyText(identity, isKept, this.#isSecure));
  }

  async #copyKey(): Promise<void> {
    const copied = await navigator.clipboard.writeText(this.#key.textContent ?? "").then(
      () => true,
      () => false,
    );
    setText(this.#copy, copied ? "Copied" : "Not allowed");
    setTimeout(() => setText(this.#copy, "Copy"), COPIED_MS);
  }
}

function custodyText({ custody }: WorkerIdentity, isKept: boolean, isSecure: boolean): string {
  const gone = isKept ? "" : " It is stored nowhere now: the key is gone when the page is closed.";
  if (custody === "locked")
    return `Made in this browser, which signs with it and gives the private part to nobody. Clearing this site's data deletes it.${gone}`;
  const why = isSecure ? "This browser has no Ed25519 of its own" : "Over plain http a browser has no key store";
  return `${why}: the private key lies readable in this site's storage. Who can read that can pose as this worker.${gone}`;
}
