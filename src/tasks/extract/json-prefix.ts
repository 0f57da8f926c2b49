// Reads JSON that is whole or was cut off, exactly.
import { withoutEnd } from "./lenient-json.ts";
import { type ExtractedRecord, setMember } from "./record.ts";

/**
 * The value of a text that is JSON, or the beginning of JSON that was cut off, as answers of a model are at their token limit. Everything that was
 * complete is kept exactly. Of the value that was open the sure part is kept: a string up to the cut, `tru` as true, null where nothing is known yet;
 * a name without a value is left out. Undefined where the text is neither (RFC 8259). An integer that a double cannot hold stays text.
 */
export function parseJsonPrefix(text: string): unknown {
  const value = new PrefixParser(text).whole();
  return value === NONE ? undefined : value;
}

// Not JSON; `undefined` would be mistaken for a value.
const NONE = Symbol("none");
// Deeper than what the caller lets through.
const DEPTH = 64;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const CUT_NUMBER = /(?:-|\.|[eE][+-]?)$/y;
const LITERALS = { true: true, false: false, null: null };

class PrefixParser {
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  whole(): unknown {
    const value = this.value(0);
    this.blank();
    return this.isOver() ? value : NONE;
  }

  private value(depth: number): unknown {
    this.blank();
    if (this.isOver()) return null;
    if (depth > DEPTH) return NONE;
    const char = this.text[this.at];
    if (char === "{") return this.object(depth);
    if (char === "[") return this.array(depth);
    if (char === '"') return this.string() ?? NONE;
    // `null` is a value: only undefined leads on.
    const literal = this.literal();
    return literal === undefined ? this.number() : literal;
  }

  private object(depth: number): unknown {
    const record: ExtractedRecord = {};
    this.at++;
    let isOpen = !this.ends("}");
    while (isOpen) {
      this.blank();
      const name = this.text[this.at] === '"' ? this.string() : undefined;
      this.blank();
      if (this.isOver()) break;
      if (name === undefined || this.text[this.at++] !== ":") return NONE;
      const value = this.value(depth + 1);
      if (value === NONE) return NONE;
      setMember(record, name, value);
      isOpen = !this.ends("}");
      if (isOpen && this.text[this.at++] !== ",") return NONE;
    }
    return record;
  }

  private array(depth: number): unknown {
    const items: unknown[] = [];
    this.at++;
    let isOpen = !this.ends("]");
    while (isOpen) {
      this.blank();
      if (this.isOver()) break;
      const item = this.value(depth + 1);
      if (item === NONE) return NONE;
      items.push(item);
      isOpen = !this.ends("]");
      if (isOpen && this.text[this.at++] !== ",") return NONE;
    }
    return items;
  }

  /** The string that opens at `at`, or what there is of it. */
  private string(): string | undefined {
    const start = ++this.at;
    while (!this.isOver()) {
      const char = this.text[this.at] ?? "";
      if (char === '"') return decoded(this.text.slice(start, this.at++));
      const length = char !== "\\" ? 1 : this.text[this.at + 1] === "u" ? 6 : 2;
      if (this.at + length > this.text.length) break;
      this.at += length;
    }
    const part = decoded(this.text.slice(start, this.at));
    this.at = this.text.length;
    // If only the quote is missing, the closers at the end are not its own.
    return part === undefined ? undefined : withoutEnd(part, "}]");
  }

  private literal(): boolean | null | undefined {
    for (const [name, value] of Object.entries(LITERALS)) {
      const part = this.text.slice(this.at, this.at + name.length);
      if (part !== name && (this.at + part.length < this.text.length || !name.startsWith(part))) continue;
      this.at += part.length;
      return value;
    }
    return undefined;
  }

  private number(): unknown {
    const digits = this.match(NUMBER);
    const isCut = this.match(CUT_NUMBER) !== undefined;
    if (digits === undefined) return isCut ? null : NONE;
    const value = Number(digits);
    return /^-?\d+$/.test(digits) && !Number.isSafeInteger(value) ? digits : value;
  }

  /** Whether the list or object is over: closed here, or cut off. */
  private ends(closer: string): boolean {
    this.blank();
    if (this.isOver()) return true;
    if (this.text[this.at] !== closer) return false;
    this.at++;
    return true;
  }

  private isOver(): boolean {
    return this.at >= this.text.length;
  }

  private blank(): void {
    this.match(/[ \t\n\r]+/y);
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }
}

/** The text of a JSON string without its quotes; undefined where an escape or a character is not allowed. */
function decoded(inside: string): string | undefined {
  try {
    return String(JSON.parse(`"${inside}"`));
  } catch {
    return undefined;
  }
}
