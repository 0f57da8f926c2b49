// Finds JSON in a text: the whole text, code fences, and bracket groups in prose. The first reader of extract_json.
import { parseJsonPrefix } from "./json-prefix.ts";
import { parseLeniently } from "./lenient-json.ts";
import type { Records } from "./record.ts";

// An output has at most this many levels, so deeper groups are replaced by null before a parser reads them.
const DEPTH = 16;
// A bracket group that is not data can contain groups that are. They are searched down to this level.
const NESTED = 4;
// A quote with a closing quote within this many characters opens a string; without one it is an apostrophe.
const SINGLE_QUOTED = 500;

/** A part of a text. `end` is the index after its last character. */
type Span = { start: number; end: number };

/** A bracket group to parse. `content` is its text, with null in place of every group that is too deep. */
type Island = Span & { content: string };

/** Adds the JSON objects in `text` to `records`, and returns true if there were any. */
export function extractJson(text: string, records: Records): boolean {
  const trimmed = text.trim();
  if (/^-?\d{1,16}(?:\.\d{1,16})?$|^(?:true|false)$/.test(trimmed)) {
    const value = strict(trimmed);
    if (value !== undefined) records.add({ value });
    return records.list.length > 0;
  }
  // A group that fills the whole text or a whole fenced block is data, even `[1, 2]`.
  const blocks = [inside(text, 0, text.length), ...fencesOf(text)];
  const wholes = new Set(blocks.map(({ start, end }) => `${start}:${end}`));
  for (const { start, end, content } of islandsOf(text)) {
    addIsland(content, wholes.has(`${start}:${end}`), NESTED, records);
  }
  return records.list.length > 0;
}

/** Adds the value of an island. If the island is not data, adds the values of the groups inside it. */
function addIsland(content: string, isWhole: boolean, levels: number, records: Records): void {
  if (records.isFull) return;
  const value = parse(content, isWhole);
  if (value !== undefined) {
    for (const item of Array.isArray(value) ? value : [value]) records.add(isObject(item) ? item : { value: item });
  } else if (levels > 0 && (content.startsWith("{") || /[:=]/.test(content))) {
    for (const inner of islandsOf(content.slice(1))) addIsland(inner.content, false, levels - 1, records);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The decoded text if the whole input is one JSON string, else undefined. Models often send JSON inside a JSON string. */
export function unquoted(text: string): string | undefined {
  const trimmed = text.trim();
  if (!trimmed.startsWith('"') || !trimmed.endsWith('"')) return undefined;
  const value = strict(trimmed);
  return typeof value === "string" ? value : undefined;
}

/** The contents of ``` blocks, without the first line. A block that is not closed ends with the text. */
function fencesOf(text: string): Span[] {
  const fences: Span[] = [];
  let open = text.indexOf("```");
  while (open >= 0) {
    const line = text.indexOf("\n", open);
    if (line < 0) break;
    const close = text.indexOf("```", line);
    fences.push(inside(text, line + 1, close < 0 ? text.length : close));
    open = close < 0 ? -1 : text.indexOf("```", close + 3);
  }
  return fences;
}

/** The span without the white space at its ends. */
function inside(text: string, start: number, end: number): Span {
  const part = text.slice(start, end);
  return { start: start + part.length - part.trimStart().length, end: start + part.trimEnd().length };
}

type Group = Span & { depth: number };

/**
 * The outermost balanced bracket groups, found in one pass with a stack. An opening bracket that is never closed stays on the
 * stack, and the closed groups inside it count. Inside a group, brackets in strings do not count; a double-quoted string ends
 * with its line at the latest. A group that looks like JSON and is still open at the end of the text is an island too: the
 * answer of a model can be cut off, and the lenient parser closes it.
 */
function islandsOf(text: string): Island[] {
  const stack: { at: number; closer: "}" | "]" }[] = [];
  const waiting = { "}": 0, "]": 0 };
  const closed: Group[] = [];
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === "\\") i++;
      else if (char === '"' || char === "\n") inString = false;
    } else if (char === "\\") i++;
    else if (char === '"') inString = stack.length > 0;
    else if (char === "'" && stack.length > 0) i = endOfSingleQuoted(text, i);
    else if (char === "{" || char === "[") {
      const closer = char === "{" ? "}" : "]";
      stack.push({ at: i, closer });
      waiting[closer]++;
    } else if ((char === "}" || char === "]") && waiting[char] > 0) {
      // Unmatched openers of the other kind lie above the matching one on the stack. They are dropped.
      for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
        waiting[top.closer]--;
        if (top.closer !== char) continue;
        closed.push({ start: top.at, end: i + 1, depth: stack.length });
        break;
      }
    }
  }
  const cutAt = stack.length > DEPTH ? -1 : stack.findIndex(({ at }) => CUT_HEAD.test(text.slice(at, at + 100)));
  const cut = stack[cutAt];
  const groups = outermost(closed, cut?.at ?? text.length);
  if (cut !== undefined) groups.push({ start: cut.at, end: text.trimEnd().length, depth: cutAt });
  return blankDeep(text, groups, closed);
}

// The beginning of a group that looks like data although it is never closed.
const CUT_HEAD = /^(?:[{[]\s*["'{[“]|\{\s*[\p{L}_$][\p{L}\p{N}_$-]{0,60}"?\s*:(?!:))/u;

/** The index of the quote that closes the one at `at`; `at` itself if it is an apostrophe or is not closed. */
function endOfSingleQuoted(text: string, at: number): number {
  if (!/[{[,:(=]\s{0,20}$/.test(text.slice(Math.max(0, at - 21), at))) return at;
  const limit = Math.min(text.length, at + SINGLE_QUOTED);
  for (let i = at + 1; i < limit; i++) {
    const char = text[i];
    if (char === "\\") i++;
    else if (char === "\n") return at;
    else if (char === "'" && /^\s{0,20}(?:[,:}\])]|$)/.test(text.slice(i + 1, i + 22))) return i;
  }
  return at;
}

/** The groups that are not inside another group and end at `before` or earlier, in order. */
function outermost(groups: readonly Group[], before: number): Group[] {
  const sorted = groups.filter((group) => group.end <= before).sort((a, b) => a.start - b.start);
  let end = 0;
  return sorted.filter((group) => {
    if (group.start < end) return false;
    end = group.end;
    return true;
  });
}

/** The islands, with null in place of every group at level `DEPTH`. So no parser recurses deeper than that. */
function blankDeep(text: string, islands: readonly Group[], closed: readonly Group[]): Island[] {
  // `closed` is sorted by end and the islands do not overlap, so one pass over both is enough.
  let next = 0;
  return islands.map(({ start, end, depth }) => {
    let content = "";
    let from = start;
    for (; next < closed.length; next++) {
      const group = closed[next];
      if (group === undefined || group.end > end) break;
      if (group.start < from || group.depth !== depth + DEPTH) continue;
      content += `${text.slice(from, group.start)}null`;
      from = group.end;
    }
    return { start, end, content: content + text.slice(from, end) };
  });
}

/** The value of an island; undefined if it is prose in brackets. `isWhole` is true if it fills the whole text or block. */
function parse(content: string, isWhole: boolean): unknown {
  // A double cannot represent an integer of this many digits exactly. `parseJsonPrefix` keeps it as text.
  const whole = /\d{16}/.test(content) ? undefined : strict(content);
  const value = whole ?? parseJsonPrefix(content);
  // `{"id: 1}` is the beginning of valid JSON, cut off in its first name. But the lenient parser gets more out of it.
  if (value !== undefined && !(whole === undefined && isEmpty(value) && content.includes('"'))) return isData(value, isWhole) ? value : undefined;
  const plain = unescaped(content);
  const head = plain.slice(0, 400);
  const isPlausible = OBJECT_HEAD.test(head) || (isWhole ? /^\[\s*(?:["'{[“„«\d-]|\(\s*["'\d])/ : /^\[\s*[{[]/).test(head);
  if (!isPlausible) return undefined;
  const read = parseLeniently(plain);
  return read !== undefined && isData(read, isWhole) ? read : undefined;
}

/** `content` with plain quotes if its quotes were escaped for a shell, a log or HTML. */
function unescaped(content: string): string {
  const head = content.slice(0, 40);
  if (/^[{[](?:[\s[{]|\\[nrt])*\\["']/.test(head)) return content.replace(/\\(["'\\nrt])/g, (_, char: string) => CONTROLS.get(char) ?? char);
  if (!/^[{[][\s[{]*&(?:quot|#34|#39|apos);/.test(head)) return content;
  return content.replace(/&(quot|#34|apos|#39|lt|gt|amp);/g, (entity, name: string) => ENTITIES.get(name) ?? entity);
}

const CONTROLS: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["quot", '"'],
  ["#34", '"'],
  ["apos", "'"],
  ["#39", "'"],
  ["lt", "<"],
  ["gt", ">"],
  ["amp", "&"],
]);

// A brace, then a comment, or a name (quoted or not, or a number as in Python) with a colon. `{ return x; }` is code and `{name}` is a template.
const OBJECT_HEAD =
  /^\{\s*(?:\/\/|\/\*|#|<!--|[ub]?["'“‘„«][^"'”’“»\n]{0,100}["'”’“»]\s*[:：=]|[\p{L}_$][\p{L}\p{N}_$-]{0,60}\s*(?::(?!:)|=[>\s])|[\p{L}_$][\p{L}\p{N}_$-]{0,60}"\s*:|-?\d{1,18}:\s|"[^"\n]{1,100}[":]\s*(?:["{[]|-?\d|(?:true|false|null)\b))/u;

/** True for an object, and for a list with objects or texts. `[1]` and `[2, 3]` in prose are citations, not data. */
function isData(value: unknown, isWhole: boolean): boolean {
  if (isWhole || isObject(value)) return value !== undefined;
  if (!Array.isArray(value)) return false;
  return value.some((item) => isObject(item) || (typeof item === "string" && value.length > 1));
}

/** True if `value` consists of empty objects and lists only. */
function isEmpty(value: unknown): boolean {
  return Array.isArray(value) ? value.every(isEmpty) : isObject(value) && Object.keys(value).length === 0;
}

function strict(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
