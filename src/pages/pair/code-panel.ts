// The panel of the pair page with the code: its letters and its QR code, until a worker claims it.
import { encode } from "uqr";
import { fingerprintWords } from "../../receipt/ed25519.ts";
import type { PairedWorker } from "../../sdk/index.ts";
import { countdown, isLocalAddress } from "../../sdk/trust.ts";
import { copyOnClick, element, keepFocus, make, setText, showMessage } from "../shell/dom.ts";
import type { OpenCode } from "./stored.ts";

const SVG = "http://www.w3.org/2000/svg";
/** The light border of the QR code, in modules. The standard requires four. */
const BORDER = 4;

/** Shows the pairing code in large letters, and its state. */
export class CodePanel {
  readonly #make = element("make-code", HTMLButtonElement);
  readonly #offer = element("offer", HTMLElement);
  readonly #left = element("time-left", HTMLElement);
  readonly #earlier = element("earlier-code", HTMLElement);
  readonly #paired = element("paired", HTMLElement);
  readonly #result = element("code-result", HTMLElement);
  readonly #live = element("live", HTMLElement);
  #open: OpenCode | null = null;
  /** True while the panel says that the coordinator does not answer. */
  #saysOutage = false;
  /** Moves the focus from the button to the answer. */
  #moveFocus: (next: HTMLElement) => void = () => {};

  constructor(onMake: () => void) {
    this.#make.addEventListener("click", onMake);
    copyOnClick(element("copy-code", HTMLButtonElement), () => this.#open?.code ?? "");
    copyOnClick(element("copy-link", HTMLButtonElement), () => this.#open?.workerUrl ?? "");
    copyOnClick(element("copy-command", HTMLButtonElement), () => element("command", HTMLElement).textContent);
  }

  /** There is no code yet. `isReady` is true if there is a user id. */
  idle(isReady: boolean): void {
    this.#show(null, null);
    this.#make.disabled = !isReady;
    setText(this.#make, "Make a code");
    this.say(isReady ? "" : "First make or enter a user id.", null);
  }

  /** The request for a code was sent. */
  asking(): void {
    this.#moveFocus = keepFocus(this.#make);
    this.#make.disabled = true;
    this.say("Waiting for the coordinator.", null);
  }

  /** There is a code, and no worker has claimed it yet. */
  offered(open: OpenCode): void {
    this.#show(open, null);
    const { code, workerUrl } = open;
    const big = element("big-code", HTMLElement);
    // One text, so that a person who selects and copies it gets one line.
    setText(big, code);
    // A screen reader must spell the code and not read it as a word.
    big.setAttribute("aria-label", [...code].join(" "));
    const link = element("worker-link", HTMLAnchorElement);
    link.href = workerUrl;
    setText(link, workerUrl);
    element("only-here", HTMLElement).hidden = !isLocalAddress(workerUrl);
    element("qr", HTMLElement).replaceChildren(qrImage(workerUrl, "QR code of the worker page with this code"));
    // npx finds the program in a clone, in a project and in a global installation. The command needs the address if the worker is not running.
    setText(element("command", HTMLElement), `npx compute-router worker pair ${code} --url ${new URL(workerUrl).origin}`);
    setText(this.#make, "Make another code");
    // The code stands before the button: from here a person reads on to the ways to claim it.
    this.#moveFocus(big);
    this.#make.disabled = false;
    this.#sayWaiting();
    setText(this.#live, `Code ${[...code].join(" ")}, valid for ${Math.ceil((open.expiresAt.getTime() - Date.now()) / 60_000)} minutes.`);
    this.tick(Date.now());
  }

  /** Updates the remaining time, and whether an earlier code can still be valid. */
  tick(now: number): void {
    if (this.#open === null) return;
    const { expiresAt, earlierUntil } = this.#open;
    setText(this.#left, countdown(expiresAt.getTime() - now));
    this.#earlier.hidden = earlierUntil === undefined || earlierUntil <= now;
  }

  /** A worker claimed the code. */
  paired({ publicKey, fingerprint }: PairedWorker): void {
    const moveFocus = keepFocus(this.#offer);
    this.#show(null, publicKey);
    moveFocus(this.#paired);
    element("paired-words", HTMLElement).replaceChildren(...fingerprintWords(publicKey).map((word) => make("li", "", word)));
    setText(element("paired-key", HTMLElement), publicKey);
    this.say("", null);
    setText(this.#live, `Paired with the worker ${fingerprint}.`);
  }

  /** The code could not be made, or it has expired. `isOutage` is true if the text is about a coordinator that does not answer. */
  failed(text: string, isOutage: boolean): void {
    const moveFocus = keepFocus(this.#offer);
    this.#show(null, null);
    this.#make.disabled = false;
    setText(this.#make, "Make a code");
    this.say(text, "bad");
    this.#saysOutage = isOutage;
    moveFocus(this.#make);
    this.#moveFocus(this.#make);
  }

  /** Another code could not be made. The open one stays. `isOutage` as of {@link failed}. */
  refused(text: string, isOutage: boolean): void {
    this.#make.disabled = false;
    this.say(text, "bad");
    this.#saysOutage = isOutage;
    this.#moveFocus(this.#make);
  }

  /** A question about the open code, or for the list of workers, got an answer, or none. */
  answered(isAnswer: boolean): void {
    if (isAnswer === !this.#saysOutage) return;
    if (isAnswer) return this.#open === null ? this.say("", null) : this.#sayWaiting();
    this.say("The coordinator does not answer. The code stays valid.", "bad");
    this.#saysOutage = true;
  }

  #sayWaiting(): void {
    this.say("Waiting for a worker.", null);
  }

  /** Shows a line of text below the code. */
  say(text: string, tone: "bad" | null): void {
    this.#saysOutage = false;
    showMessage(this.#result, text, tone);
  }

  #show(open: OpenCode | null, pairedKey: string | null): void {
    this.#open = open;
    this.#offer.hidden = open === null;
    this.#paired.hidden = pairedKey === null;
    element("code-hint", HTMLElement).hidden = open !== null || pairedKey !== null;
    if (pairedKey !== null) {
      this.#make.disabled = false;
      setText(this.#make, "Pair another worker");
    }
  }
}

/** A text as a QR code in one SVG path. It is black on white even in dark mode, because many readers do not recognise an inverted code. */
function qrImage(text: string, label: string): SVGSVGElement {
  const { data, size } = encode(text, { ecc: "M", border: BORDER });
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("viewBox", `0 0 ${size} ${size}`);
  image.setAttribute("role", "img");
  image.setAttribute("aria-label", label);
  image.setAttribute("shape-rendering", "crispEdges");
  const ink = document.createElementNS(SVG, "path");
  ink.setAttribute("d", data.flatMap(runs).join(""));
  image.append(ink);
  return image;
}

/** The dark modules of a row as SVG path data: one rectangle for each run. */
function runs(row: readonly boolean[], y: number): string[] {
  const paths: string[] = [];
  for (let x = 0; x < row.length; x++) {
    const start = x;
    while (row[x] === true) x++;
    if (x > start) paths.push(`M${start} ${y}h${x - start}v1h-${x - start}z`);
  }
  return paths;
}
