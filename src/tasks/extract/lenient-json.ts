// Parses text that was meant as JSON: JSON5, Python, comments, missing quotes and brackets. The last parser that json-islands.ts tries.
import { Blanks } from "./blanks.ts";
import { type ExtractedRecord, setMember } from "./record.ts";

/** The value of a text in brackets if it was meant as data; undefined for prose, code or mathematics. */
export function parseLeniently(text: string): unknown {
  const value = new LenientParser(text).whole();
  return value === NONE ? undefined : value;
}

// The text is not data. A symbol, because null is a value.
const NONE = Symbol("none");

// The caller has replaced brackets below level 16. This limit is higher, because calls and tuples count here too.
const DEPTH = 64;
const KEY_LENGTH = 120;

const CLOSING: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ["'", "'"],
  ["`", "`"],
  ["“", "”"],
  ["‘", "’"],
  ["«", "»"],
  ["„", "“"],
]);
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["t", "\t"],
  ["r", "\r"],
  ["b", "\b"],
  ["f", "\f"],
  ["\n", ""],
]);
const NO_ESCAPE = /^(?:[dDsSwW]|[.()[\]{}^+?|*]|[A-Za-z]{2})/;
const NULLS = ["null", "None", "nil", "NULL", "Null", "undefined", "NaN", "nan", "Infinity", "-Infinity", "inf"];
const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["TRUE", true],
  ["false", false],
  ["False", false],
  ["FALSE", false],
  ...NULLS.map((name): [string, null] => [name, null]),
]);

const BARE_KEY = /[\p{L}\p{N}_$@-][\p{L}\p{N}_$@./-]{0,119}/uy;
const KEY_AHEAD = /[\s,]*(?:[bu]?["'“‘„«]|[\p{L}\p{N}_$@-]{1,64}"?\s*[:=])/uy;
const VALUE_AHEAD = /[\s,]*(?:[bu]?["'“‘„«{[(]|-?\d|true\b|false\b|null\b|None\b|True\b|False\b)/uy;
// Three patterns for a name with one fault: its opening quote, its closing quote or its colon is missing. The text around the
// name must confirm the fault, within a bounded distance.
const UNOPENED_KEY = /([\p{L}\p{N}_$@-][\p{L}\p{N}_$@./ -]{0,119})"\s{0,40}(?=[:：])/uy;
const UNCLOSED_KEY =
  /"([\p{L}\p{N}_$@-][\p{L}\p{N}_$@./ -]{0,119})(?=:(?!\s{0,40}(?:[^"\\\n]|\\.){0,120}"\s{0,40}[:=])\s{0,40}(?:["{[]|-?\d|(?:true|false|null)\b))/uy;
const KEY_WITHOUT_COLON = /"([^"\n\\:]{1,120})"[ \t]{0,40}(?=[{[]|-?\d|(?:true|false|null)\b|"[^"\n]{0,1000}"\s{0,40}[,}\n])/uy;
// Stray characters before a name: `{"id": 1, 3"ms": 950}`.
const STRAY_BEFORE_KEY = /(?<=[{,\n][ \t]{0,40})[^\s"'{}]{1,3}\s{0,40}(?="[^"\n]{1,120}"\s{0,40}:)/uy;
// The prefix of a Python string: `u'x'`, `rb"x"`.
const STRING_PREFIX = /[bfruBFRU]{1,2}(?=(["'])(?:[^"'\\\n]|\\.){0,200}\1\s{0,40}[:,}\])])/y;
// PHP writes an object as a list: `["a" => 1]`.
const NAMED_LIST_AHEAD = /\[\s{0,40}(?:"[^"\n]{0,100}"|'[^'\n]{0,100}')\s{0,40}=>/y;
const CALL = /(?:new\s+)?[\p{L}_$][\p{L}\p{N}_$.]{0,60}\(/uy;
const BARE_VALUE = /[^,，;{}[\]()"“\n]{1,2000}/uy;
// A number as people write it: `1,299.00`, `$1,299`, `12,50 €`, `1'299.00`. In an object no other number can follow a comma, unless it is a name.
const WRITTEN_NUMBER = /(?:\p{Sc}\s?)?[+-]?\d{1,20}(?:[.,'’ \u00a0\u202f]\d{1,20}){1,8}(?:\s?(?:\p{Sc}|%|\p{L}{1,12}(?: \p{L}{1,12})?))?(?=\s*(?:[,}]|\n|$))/uy;
// A Python set: the first member has no colon.
const SET_AHEAD = /\{\s{0,40}(?:"[^"\n]{0,100}"|'[^'\n]{0,100}'|-?\d[\d.]{0,30})\s{0,40}[,}]/y;
// A comment after a value without quotes. `http://` is not a comment.
const COMMENT_AFTER = /\s(?:\/\/|#|\/\*)[^]*$/u;
// A value without quotes must be a name, a date, a version, a path or a few plain words.
const PLAIN = /^[\p{L}\p{N}\p{Sc}_@./:+%~&?=-]+(?: [\p{L}\p{N}\p{Sc}_@./:+%&'’-]+){0,7}$/u;

/**
 * A recursive descent parser. It accepts JSON5, Python and JavaScript literals, comments, missing or doubled commas and
 * brackets, quotes inside strings, and text that was cut off. It reads every character a bounded number of times.
 */
class LenientParser {
  private at = 0;
  private quoted = 0;
  private semicolons = 0;

  private readonly text: string;
  private readonly blanks: Blanks;

  constructor(text: string) {
    this.text = text;
    this.blanks = new Blanks(text);
  }

  whole(): unknown {
    const values: unknown[] = [];
    do {
      values.push(this.value(0, false));
      this.separators();
      // The next object starts although the last one was not closed.
    } while (values.at(-1) !== NONE && this.text[this.at] === "{");
    const value = values.includes(NONE) ? NONE : values.length > 1 ? values : values[0];
    // Semicolons without any quotes are code: `{ color: red; }` is a style sheet and `{ id: number; }` is a type.
    return value === NONE || (this.semicolons > 0 && this.quoted === 0) ? NONE : value;
  }

  private value(depth: number, inObject: boolean): unknown {
    this.skipBlanks();
    const char = this.text[this.at];
    // The value is cut off or missing: `{"id": , "name": "Ana"}`.
    if (char === undefined || (inObject && this.quoted > 0 && (char === "," || char === "}"))) return null;
    if (depth > DEPTH) return NONE;
    if (char === "{") return depth > 0 && this.isAhead(SET_AHEAD) ? this.array(depth, "}") : this.object(depth, "}");
    if (char === "[" && this.isAhead(NAMED_LIST_AHEAD)) return this.object(depth, "]");
    if (char === "[" || char === "(") return this.array(depth, char === "[" ? "]" : ")");
    this.skip(STRING_PREFIX);
    if (CLOSING.has(this.text[this.at] ?? "")) return this.strings(inObject);
    const call = this.match(CALL);
    if (call !== undefined) return this.call(depth);
    return (inObject ? this.writtenNumber() : undefined) ?? this.bare();
  }

  private object(depth: number, closer: "}" | "]"): unknown {
    const record: ExtractedRecord = {};
    let pairs = 0;
    this.at++;
    for (;;) {
      this.separators();
      const char = this.text[this.at];
      if (char === undefined) break;
      if (char === closer) {
        this.at++;
        break;
      }
      // This bracket closes a list around the object, so the brace of the object is missing.
      if (char === "}" || char === "]" || char === ")") break;
      // The next object of a list starts although this one was not closed: `[{"id": 1, {"id": 2}]`.
      if (char === "{" && pairs > 0) break;
      const key = this.key();
      this.skipBlanks();
      // The text is cut off in a name or after it. The complete members count.
      if (this.at >= this.text.length) break;
      if (key === undefined || !(key.isAssigned || this.assignment())) return NONE;
      const value = this.value(depth + 1, true);
      if (value === NONE) return NONE;
      setMember(record, key.name, value);
      pairs++;
    }
    return pairs > 0 || this.text.slice(0, 2) === "{}" || depth > 0 ? record : NONE;
  }

  private array(depth: number, closer: string): unknown {
    const items: unknown[] = [];
    this.at++;
    for (;;) {
      this.separators();
      const char = this.text[this.at];
      if (char === undefined) return items;
      if (char === closer) {
        this.at++;
        return items;
      }
      if (char === "}" || char === "]" || char === ")") return items;
      const item = this.value(depth + 1, false);
      if (item === NONE) return NONE;
      items.push(item);
    }
  }

  /** The arguments of a call such as `ObjectId("5f")`, `new Date("…")` or `Decimal('1.2')`. */
  private call(depth: number): unknown {
    this.at--;
    const inside = this.array(depth + 1, ")");
    if (!Array.isArray(inside)) return NONE;
    return inside.length === 1 ? inside[0] : inside;
  }

  /** The name of a member. `isAssigned` is true if its value follows without a colon. */
  private key(): { name: string; isAssigned: boolean } | undefined {
    this.skip(STRAY_BEFORE_KEY);
    this.skip(STRING_PREFIX);
    for (const pattern of [UNOPENED_KEY, UNCLOSED_KEY, KEY_WITHOUT_COLON]) {
      pattern.lastIndex = this.at;
      const name = pattern.exec(this.text)?.[1];
      if (name === undefined) continue;
      this.at = pattern.lastIndex;
      this.quoted++;
      return { name, isAssigned: pattern === KEY_WITHOUT_COLON };
    }
    const isQuoted = CLOSING.has(this.text[this.at] ?? "");
    const name = isQuoted ? this.string(":", true)?.slice(0, KEY_LENGTH) : this.match(BARE_KEY);
    return name === undefined ? undefined : { name, isAssigned: false };
  }

  private assignment(): boolean {
    if (this.text.startsWith("=>", this.at)) this.at += 2;
    else if (":=：".includes(this.text[this.at] ?? " ")) this.at++;
    else return false;
    return true;
  }

  private separators(): void {
    for (;;) {
      this.skipBlanks();
      const char = this.text[this.at];
      if (char === ";") this.semicolons++;
      else if (char !== "," && char !== "，") return;
      this.at++;
    }
  }

  /** One string, or several strings joined by `+`. */
  private strings(inObject: boolean): unknown {
    let text = this.string(inObject ? "key" : "value", false) ?? "";
    for (;;) {
      const end = this.at;
      this.skipBlanks();
      if (this.text[this.at] === "+") {
        this.at++;
        this.skipBlanks();
        if (CLOSING.has(this.text[this.at] ?? "")) {
          text += this.string(inObject ? "key" : "value", false) ?? "";
          continue;
        }
      }
      this.at = end;
      return text;
    }
  }

  /**
   * The string that starts at `at`. A quote closes it only if the text after the quote fits. `next` is what must follow: `:`
   * after a name; after a value and a comma, the next name or the next value.
   */
  private string(next: ":" | "key" | "value", isKey: boolean): string | undefined {
    const opener = this.text[this.at] ?? "";
    const triple = opener.repeat(3);
    if (this.text.startsWith(triple, this.at)) return this.tripleQuoted(triple);
    const closer = CLOSING.get(opener) ?? opener;
    this.quoted++;
    this.at++;
    let text = "";
    // The last quote after a comma or a line break: it may open the next name.
    let possibleKey: { at: number; length: number } | undefined;
    while (this.at < this.text.length) {
      const char = this.text[this.at] ?? "";
      if (char === "\\") text += this.escape();
      else if (char === closer || char === opener) {
        if (isKey ? this.endsKey() : this.endsValue(next)) {
          this.at++;
          return text;
        }
        if (!isKey && possibleKey !== undefined && this.leadsTo(":=")) {
          // This quote closes a name, so the string ended before that name and its own closing quote is missing.
          this.at = possibleKey.at;
          return withoutEnd(text.slice(0, possibleKey.length), ",");
        }
        if (/[,\n]\s{0,40}$/.test(this.text.slice(Math.max(0, this.at - 42), this.at))) possibleKey = { at: this.at, length: text.length };
        text += char;
        this.at++;
      } else {
        text += char;
        this.at++;
      }
    }
    // The string was cut off or never closed. The brackets at the end do not belong to it.
    return isKey ? undefined : withoutEnd(text, "}]");
  }

  /** A string of Python that begins with three quotes. */
  private tripleQuoted(quotes: string): string {
    const start = this.at + quotes.length;
    const end = this.text.indexOf(quotes, start);
    this.quoted++;
    this.at = end < 0 ? this.text.length : end + quotes.length;
    return this.text.slice(start, end < 0 ? undefined : end);
  }

  private endsKey(): boolean {
    return this.leadsTo(":=：");
  }

  private endsValue(next: ":" | "key" | "value"): boolean {
    const after = this.blanks.endOf(this.at + 1);
    const char = this.text[after];
    if (char === undefined || "}]);+".includes(char)) return true;
    if (char === "," || char === "，") {
      const ahead = next === "key" ? KEY_AHEAD : VALUE_AHEAD;
      ahead.lastIndex = after + 1;
      return ahead.test(this.text) || /^\s*(?:[}\])]|$|\/\/|\/\*|#|\.\.\.)/.test(this.text.slice(after + 1, after + 200));
    }
    // A comma is missing at the end of a line or between two strings.
    const gap = this.text.slice(this.at + 1, after);
    if (gap.includes("\n")) {
      const ahead = next === "key" ? KEY_AHEAD : VALUE_AHEAD;
      ahead.lastIndex = after;
      return char === "{" || ahead.test(this.text);
    }
    return gap !== "" && CLOSING.has(char) && next === "key" && this.isKeyAt(after);
  }

  private isKeyAt(at: number): boolean {
    return /^["'“‘][^"'”’\n]{1,60}["'”’]\s*:/.test(this.text.slice(at, at + 80));
  }

  private leadsTo(marks: string): boolean {
    let after = this.at + 1;
    while (/\s/.test(this.text[after] ?? "x")) after++;
    return marks.includes(this.text[after] ?? " ");
  }

  private escape(): string {
    const code = /\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2}))/y;
    code.lastIndex = this.at;
    const hex = code.exec(this.text);
    if (hex !== null) {
      const point = Number.parseInt(hex[1] ?? hex[2] ?? hex[3] ?? "0", 16);
      this.at = code.lastIndex;
      return point > 0x10ffff ? "\ufffd" : hex[1] === undefined ? String.fromCodePoint(point) : String.fromCharCode(point);
    }
    const char = this.text[this.at + 1] ?? "";
    this.at += 2;
    // `\d`, `\.`, `\Users` and `\alpha` are no escapes: the text has a pattern, a path or a formula.
    return ESCAPES.get(char) ?? (NO_ESCAPE.test(this.text.slice(this.at - 1, this.at + 1)) ? `\\${char}` : char);
  }

  private writtenNumber(): number | string | undefined {
    const text = this.match(WRITTEN_NUMBER);
    return text === undefined ? undefined : (numberOf(plainNumber(text)) ?? text);
  }

  private bare(): unknown {
    const start = this.at;
    const raw = this.match(BARE_VALUE);
    if (raw === undefined) return NONE;
    const comment = COMMENT_AFTER.exec(raw.slice(0, 2000));
    const text = (comment === null ? raw : raw.slice(0, comment.index)).trim();
    if (comment !== null) this.at = start + comment.index;
    if (text === "") return null;
    const constant = CONSTANTS.get(text);
    if (constant !== undefined) return constant;
    const number = numberOf(text);
    if (number !== undefined) return number;
    // A placeholder, or an object that Python cannot print.
    if (this.quoted > 0 && /^<[^<>]{1,200}>$/.test(text)) return text;
    return PLAIN.test(text) && !/[<>]|(?:^|\s)[=&|]/.test(text) ? text : NONE;
  }

  private skipBlanks(): void {
    this.at = this.blanks.endOf(this.at);
  }

  private skip(pattern: RegExp): void {
    pattern.lastIndex = this.at;
    if (pattern.test(this.text)) this.at = pattern.lastIndex;
  }

  private isAhead(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    return pattern.test(this.text);
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }
}

/**
 * `text` without the `marks` at its end and the white space around them; unchanged if it has none. This is a loop because a
 * regular expression would take quadratic time on white space.
 */
export function withoutEnd(text: string, marks: string): string {
  let end = text.trimEnd().length;
  const trimmedEnd = end;
  while (end > 0 && marks.includes(text[end - 1] ?? " ")) end--;
  return end === trimmedEnd ? text : text.slice(0, end).trimEnd();
}

/** `text` without thousands separators and with a decimal point, if it is one number: `1,299.00`, `1.299,00`, `1 299,00`, `1'299`, `12,50`. */
function plainNumber(text: string): string {
  if (/^[+-]?[1-9]\d{0,2}(?:(?:[,'’]\d{3})+(?:\.\d+)?|(?:[ \u00a0\u202f]\d{3})+\.\d+)$/.test(text)) return text.replace(/[^\d.+-]/g, "");
  return /^[+-]?(?:\d+|[1-9]\d{0,2}(?:[.'’ \u00a0\u202f]\d{3})+),\d+$/.test(text) ? text.replace(/[^\d,+-]/g, "").replace(",", ".") : text;
}

/** A number as in JSON, JSON5 or Python. An integer that a double cannot represent exactly stays text. */
function numberOf(text: string): number | string | undefined {
  const plain = text.replace(/(?<=\d)_(?=\d)/g, "").replace(/^\+/, "");
  if (!/^-?(?:0[xX][0-9a-fA-F]{1,13}|(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,4})?)$/.test(plain)) return undefined;
  // "007" is a code, not a number.
  if (/^-?0\d/.test(plain)) return text;
  const value = plain.startsWith("-") ? 0 - Number(plain.slice(1)) : Number(plain);
  return /^-?\d+$/.test(plain) && !Number.isSafeInteger(value) ? text : value;
}
