// White space and comments.
const BLANK = /\s+|\/\/[^\n]{0,1000}|\/\*[^]{0,1000}?(?:\*\/|$)|#(?![\p{L}\p{N}])[^\n]{0,1000}|<!--[^]{0,1000}?(?:-->|$)|\.\.\.|…/uy;

/** Finds where the white space and the comments in a text end. */
export class Blanks {
  private readonly text: string;
  // A text can have a quote before each comment, and each quote looks past all comments that follow. So each comment is read once.
  private readonly ends = new Map<number, number>();

  constructor(text: string) {
    this.text = text;
  }

  /** The end of the white space and comments that start at `from`; `from` if there are none. */
  endOf(from: number): number {
    const starts: number[] = [];
    let at = from;
    while (!this.ends.has(at)) {
      BLANK.lastIndex = at;
      if (!BLANK.test(this.text)) break;
      starts.push(at);
      at = BLANK.lastIndex;
    }
    const end = this.ends.get(at) ?? at;
    for (const start of starts) this.ends.set(start, end);
    return end;
  }
}
