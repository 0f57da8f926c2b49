// Reads lines of `Label: value` as records of extract_json.
import { type ExtractedRecord, memberName, scalarOf, setMember } from "./record.ts";

/** A label and its raw value; a list when the value is the bullets below the label. */
export type Pair = { label: string; value: string | string[]; line: number; column: number };

const LABEL_LENGTH = 48;

/** A record made of `Label: value` pairs, and the lines it took. */
export type PairRecord = { record: ExtractedRecord; lines: number[] };

/**
 * Records of `Label: value` or `label=value` lines. A label that comes again starts a new record; blank lines do so only
 * in texts where labels come again, so a form with gaps stays one record. A record has at least two pairs.
 */
export function pairRecords(lines: readonly string[]): PairRecord[] {
  const blocks: Pair[][] = [];
  let block: Pair[] = [];
  const close = () => {
    if (block.length > 0) blocks.push(block);
    block = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const pairs = pairsOfLine(lines, i);
    if ((lines[i] ?? "").trim() === "") close();
    const last = pairs.at(-1);
    // Pairs side by side in one line are a record of their own.
    if (pairs.length > 1 && pairs.every((pair) => pair.column > 0 || pair === pairs[0]) && repeats(block, pairs)) close();
    for (const pair of pairs) {
      if (block.some(({ label }) => label === pair.label)) close();
      block.push(pair);
    }
    if (last !== undefined && Array.isArray(last.value)) i += last.value.length;
  }
  close();
  const labels = blocks.flatMap((pairs) => pairs.map(({ label }) => label));
  const isOneForm = new Set(labels).size === labels.length;
  const groups = isOneForm && blocks.length > 1 ? [blocks.flat()] : blocks;
  return groups.filter((pairs) => pairs.length >= 2).map(recordOf);
}

function repeats(block: readonly Pair[], pairs: readonly Pair[]): boolean {
  return block.some(({ label }) => pairs.some((pair) => pair.label === label));
}

function recordOf(pairs: readonly Pair[]): PairRecord {
  const record: ExtractedRecord = {};
  const lines: number[] = [];
  for (const { label, value, line } of pairs) {
    setMember(record, memberName(label), Array.isArray(value) ? value.map(scalarOf) : scalarOf(value));
    for (let i = 0; i <= (Array.isArray(value) ? value.length : 0); i++) lines.push(line + i);
  }
  return { record, lines };
}

/** The pairs in line `i`: one, or several side by side where every part of the line is one. */
export function pairsOfLine(lines: readonly string[], i: number): Pair[] {
  const line = (lines[i] ?? "").trim().replace(/^(?:(?:[-*•‣▪]|\d{1,3}[.)]) +)/, "");
  if (line === "" || line.length > 4096) return [];
  const logged = loggedPairs(line, i);
  if (logged.length > 0) return logged;
  for (const separator of [/ *\| */, /\t+| {2,}/, /; +/, /, +/]) {
    const parts = line.split(separator).filter((part) => part !== "");
    const pairs = parts.map((part, column) => pairOf(part, i, column));
    if (parts.length > 1 && pairs.every((pair) => pair !== undefined && pair.value !== "")) return pairs.filter((pair) => pair !== undefined);
  }
  const pair = pairOf(line, i, 0);
  if (pair === undefined) return [];
  if (pair.value === "") {
    const items: string[] = [];
    for (let j = i + 1; j < lines.length && items.length < 1000; j++) {
      const item = /^\s*(?:[-*•‣▪]|\d{1,3}[.)]) +(.*)$/.exec(lines[j] ?? "")?.[1];
      if (item === undefined || pairOf(item, j, 0) !== undefined) break;
      items.push(item);
    }
    return items.length > 0 ? [{ ...pair, value: items }] : [];
  }
  return [pair];
}

/** logfmt: every word of the line is `name=value`, quoted or not. */
function loggedPairs(line: string, i: number): Pair[] {
  if (!/^[\w.-]{1,48}=/.test(line)) return [];
  const pairs: Pair[] = [];
  const word = /([\p{L}_][\w.-]{0,47})=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))(?:\s+|$)/uy;
  let end = 0;
  for (let match = word.exec(line); match !== null; match = word.exec(line)) {
    pairs.push({ label: match[1] ?? "", value: match[2]?.replace(/\\(.)/g, "$1") ?? match[3] ?? "", line: i, column: pairs.length });
    end = word.lastIndex;
  }
  return end === line.length ? pairs : [];
}

/** `Label: value`, `Label：value` or `Label = value`; a label is short, starts with a letter and reads like a name. */
function pairOf(text: string, line: number, column: number): Pair | undefined {
  const bare = text.trim();
  const at = /[:：]|\s=\s/.exec(bare.slice(0, LABEL_LENGTH + 4));
  if (at === null) return undefined;
  let label = bare.slice(0, at.index).trim();
  let value = bare.slice(at.index + at[0].length).trim();
  if (label.startsWith("**") && value.startsWith("**")) {
    // `**Label:** value`, with the colon inside the marks.
    label += "**";
    value = value.slice(2).trim();
  }
  // A bracket that closes elsewhere belongs to code.
  if (/^[{[][^}\]]*$/.test(value)) return undefined;
  if (at[0] === ":" && /^\/\/|^\\/.test(bare.slice(at.index + 1))) return undefined;
  // `12:30`, `a:b` and `std::move` are no labels: a colon that ends one has a space behind it, or CJK around it.
  if (at[0] === ":" && value !== "" && !/^\s|^\*\*/.test(bare.slice(at.index + 1)) && !/^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u.test(label))
    return undefined;
  label = memberName(label);
  if (label === "" || label.length > LABEL_LENGTH || !/^[\p{L}_]/u.test(label) || /[?!;,"<>{}[\]|=@]/.test(label)) return undefined;
  if (/\.(?!$| |\w)|[^.]\. \p{Lu}/u.test(label) || label.split(" ").length > 5) return undefined;
  return { label, value, line, column };
}
