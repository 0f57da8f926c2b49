const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * Takes a model's output in pieces, cut anywhere, and lets only the visible text through. `<think>…</think>` goes, and so does the blank
 * space around it while nothing visible came before. What `push` and `end` return joins to the whole text, and no piece of it ends inside a
 * surrogate pair. A block that never closes is reasoning if it began the output; further on it is the mere word, and `end` gives it back.
 */
export class VisibleText {
  #held = "";
  #started = false;
  #thinking = false;
  #afterReasoning = false;

  /** Adds a piece of output; returns what is now certain to be visible. */
  push(piece: string): string {
    this.#held += piece;
    let visible = "";
    for (;;) {
      if (this.#thinking && !this.#closeBlock()) break;
      if (!this.#started && !this.#start()) {
        if (this.#thinking) continue;
        break;
      }
      const open = this.#held.indexOf(OPEN);
      if (open === -1) {
        const kept = beginningOf(OPEN, this.#held) || lastHighSurrogate(this.#held);
        visible += this.#held.slice(0, this.#held.length - kept.length).toWellFormed();
        this.#held = kept;
        break;
      }
      visible += this.#held.slice(0, open).toWellFormed();
      this.#held = this.#held.slice(open);
      this.#thinking = true;
    }
    return visible;
  }

  /** The output is over; returns what was held back and is visible after all. */
  end(): string {
    const rest = this.#thinking && !this.#started ? "" : this.#held;
    this.#held = "";
    return rest.toWellFormed();
  }

  /** True once a closing tag is found and everything up to it is gone. */
  #closeBlock(): boolean {
    const close = this.#held.indexOf(CLOSE);
    if (close === -1) {
      // Reasoning that began the output is never given back: do not keep it.
      if (!this.#started) this.#held = beginningOf(CLOSE, this.#held);
      return false;
    }
    this.#held = this.#held.slice(close + CLOSE.length);
    this.#thinking = false;
    this.#afterReasoning = true;
    return true;
  }

  /** True once the held text begins with something visible; false while that is open or a block begins. */
  #start(): boolean {
    const text = this.#held.trimStart();
    if (this.#afterReasoning) this.#held = text;
    if (text.startsWith(OPEN)) {
      this.#held = text.slice(OPEN.length);
      this.#thinking = true;
    } else {
      this.#started = !OPEN.startsWith(text);
    }
    return this.#started;
  }
}

/** The longest end of `text` that may be the beginning of `tag`. */
function beginningOf(tag: string, text: string): string {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length -= 1) {
    const end = text.slice(-length);
    if (tag.startsWith(end)) return end;
  }
  return "";
}

function lastHighSurrogate(text: string): string {
  return /[\uD800-\uDBFF]$/.test(text) ? text.slice(-1) : "";
}
