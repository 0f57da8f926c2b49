// Finds JSON in a text: as a whole, in code fences and in prose. The first reader of extract_json.
import { parseJsonPrefix } from "./json-prefix.ts";
import { parseLeniently } from "./lenient-json.ts";
import type { Records } from "./record.ts";

// Deeper groups than any output shows are blanked before a parser sees them.
const DEPTH = 16;
// A group that is no data may hold some; so far down it is looked for.
const NESTED = 4;
// A string in single quotes is told from an apostrophe by its end, looked for this far.
const SINGLE_QUOTED = 500;

/** A stretch of a text; `end` is past its last character. */
type Span = { start: number; end: number };

/** A group of brackets to parse: `content` is its text with what lies too deep blanked. */
type Island = Span & { content: string };

/** Adds the JSON objects in `text`: the whole text, fenced blocks, and balanced islands in prose. Returns whether there were any. */
export function extractJson(text: string, records: Records): boolean {
  const trimmed = text.trim();
  if (/^-?\d{1,16}(?:\.\d{1,16})?$|^(?:true|false)$/.test(trimmed)) {
    const value = strict(trimmed);
    if (value !== undefined) records.add({ value });
    return records.list.length > 0;
  }
  // An island that is all of the text or of a fenced block is meant as data, even `[1, 2]`.
  const frames = [inside(text, 0, text.length), ...fencesOf(text)];
  const wholes = new Set(frames.map(({ start, end }) => `${start}:${end}`));
  for (const { start, end, content } of islandsOf(text)) {
    addIsland(content, wholes.has(`${start}:${end}`), NESTED, records);
  }
  return records.list.length > 0;
}

/** Adds what an island says; if it is no data itself, then what the groups within it say. */
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

/** The text inside a JSON string that is the whole input, or undefined: models like to send JSON within JSON. */
export function unquoted(text: string): string | undefined {
  const trimmed = text.trim();
  if (!trimmed.startsWith('"') || !trimmed.endsWith('"')) return undefined;
  const value = strict(trimmed);
  return typeof value === "string" ? value : undefined;
}

/** Insides of ``` blocks, without the language line. An unclosed block ends with the text. */
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
 * Outermost balanced groups of brackets, found in one pass with a stack: whatever is never closed is left behind on the
 * stack and its closed insides count. Brackets in double-quoted strings do not, once inside a group; a string ends with
 * its line. What looks like JSON and is still open at the end of the text is an island too: models are cut off in
 * mid-answer, and the lenient parser closes it.
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
      // Openers of the other kind above the matching one are stray; each is dropped once.
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

// What looks like data though it never ends.
const CUT_HEAD = /^(?:[{[]\s*["'{[“]|\{\s*[\p{L}_$][\p{L}\p{N}_$-]{0,60}"?\s*:(?!:))/u;

/** Index of the quote that closes the one at `at`, or `at` where that is an apostrophe or stays open. */
function endOfSingleQuoted(text: string, at: number): number {
  if (!/[{[,:(=]\s{0,20}$/.test(text.slice(Math.max(0, at - 21), at))) return at;
  const most = Math.min(text.length, at + SINGLE_QUOTED);
  for (let i = at + 1; i < most; i++) {
    const char = text[i];
    if (char === "\\") i++;
    else if (char === "\n") return at;
    else if (char === "'" && /^\s{0,20}(?:[,:}\])]|$)/.test(text.slice(i + 1, i + 22))) return i;
  }
  return at;
}

/** The groups that lie in no other one and end before `before`, in order. */
function outermost(groups: readonly Group[], before: number): Group[] {
  const sorted = groups.filter((group) => group.end <= before).sort((a, b) => a.start - b.start);
  let end = 0;
  return sorted.filter((group) => {
    if (group.start < end) return false;
    end = group.end;
    return true;
  });
}

/** The islands with every group nested `DEPTH` deep in one replaced by null: no parser recurses further than that. */
function blankDeep(text: string, islands: readonly Group[], closed: readonly Group[]): Island[] {
  // `closed` is in order of ends and the islands are disjoint, so one walk over both serves all.
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

/** The value of an island, or undefined where it is prose in brackets. `isWhole`: nothing else is in the text or block. */
function parse(content: string, isWhole: boolean): unknown {
  // A double cannot hold an integer of so many digits; ours keeps it as text.
  const whole = /\d{16}/.test(content) ? undefined : strict(content);
  const value = whole ?? parseJsonPrefix(content);
  // `{"id: 1}` reads as JSON cut off in its first name, and says more if it is not.
  if (value !== undefined && !(whole === undefined && isEmpty(value) && content.includes('"'))) return isData(value, isWhole) ? value : undefined;
  const plain = unescaped(content);
  const head = plain.slice(0, 400);
  const isPlausible = OBJECT_HEAD.test(head) || (isWhole ? /^\[\s*["'{[“\d-]/ : /^\[\s*[{[]/).test(head);
  if (!isPlausible) return undefined;
  const read = parseLeniently(plain);
  return read !== undefined && isData(read, isWhole) ? read : undefined;
}

/** JSON whose quotes were escaped for a shell, a log or HTML, with plain quotes. */
function unescaped(content: string): string {
  const head = content.slice(0, 40);
  if (/^[{[][\s[{]*\\["']/.test(head)) return content.replace(/\\(["'\\])/g, "$1");
  if (!/^[{[][\s[{]*&(?:quot|#34|#39|apos);/.test(head)) return content;
  return content.replace(/&(quot|#34|apos|#39|lt|gt|amp);/g, (entity, name: string) => ENTITIES.get(name) ?? entity);
}

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["quot", '"'],
  ["#34", '"'],
  ["apos", "'"],
  ["#39", "'"],
  ["lt", "<"],
  ["gt", ">"],
  ["amp", "&"],
]);

// A brace with a quoted or plain name and a colon, or a comment; `{ return x; }` and `{name}` are code and templates.
const OBJECT_HEAD =
  /^\{\s*(?:\/\/|\/\*|#|<!--|["'“‘][^"'”’\n]{0,100}["'”’]\s*[:=]|[\p{L}_$][\p{L}\p{N}_$-]{0,60}\s*(?::(?!:)|=[>\s])|[\p{L}_$][\p{L}\p{N}_$-]{0,60}"\s*:|"[^"\n]{1,100}[":]\s*(?:["{[]|-?\d|(?:true|false|null)\b))/u;

/** `[1]` and `[2, 3]` in prose are citations; an object, or a list with objects or texts, is data. */
function isData(value: unknown, isWhole: boolean): boolean {
  if (isWhole || isObject(value)) return value !== undefined;
  if (!Array.isArray(value)) return false;
  return value.some((item) => isObject(item) || (typeof item === "string" && value.length > 1));
}

/** True if no object in `value` has a member and no list a value of another kind. */
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
