// Parses JSON, and JSON that was cut off, by the exact grammar of RFC 8259. json-islands.ts tries it before the lenient parser.
import { withoutEnd } from "./lenient-json.ts";
import { type ExtractedRecord, setMember } from "./record.ts";

/**
 * The value of a text that is JSON, or the beginning of JSON, like an answer of a model that was cut off at its token limit.
 * Every complete value is kept exactly. Of the last, incomplete value the certain part is kept: a string up to the cut, `tru`
 * as true, null if nothing is known yet. A name without a value is left out. An integer that a double cannot represent
 * exactly stays text. Undefined if the text is not JSON (RFC 8259) and not the beginning of it.
 */
export function parseJsonPrefix(text: string): unknown {
  const value = new PrefixParser(text).whole();
  return value === NONE ? undefined : value;
}

// The text is not JSON. A symbol, because `null` is a value and `undefined` means that a literal did not match.
const NONE = Symbol("none");
// A guard against deep recursion. The caller replaces groups below level 16, so it is never reached.
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
    // Not `??`: the literal `null` is a value.
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

  /** The string that starts at `at`, or its beginning if it was cut off. */
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
    // If only the closing quote is missing, the brackets at the end do not belong to the string.
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

  /** True if the list or object ends here: it is closed, or the text is cut off. */
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

/** The decoded content of a JSON string; undefined if it has an invalid escape or character. */
function decoded(inside: string): string | undefined {
  try {
    return String(JSON.parse(`"${inside}"`));
  } catch {
    return undefined;
  }
}
