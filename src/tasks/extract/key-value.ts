// Reads `Label: value` and `label=value` lines as records, for extract_json and invoice.ts.
import { type ExtractedRecord, memberName, scalarOf, setMember } from "./record.ts";

/** A label with its value as written. The value is a list if bullets follow the label. */
export type Pair = { label: string; value: string | string[]; line: number };

const LABEL_LENGTH = 48;

/** A record of `Label: value` pairs, and the indices of its lines. */
type PairRecord = { record: ExtractedRecord; lines: number[] };

/**
 * The records of `Label: value` or `label=value` lines. A label that occurs again starts a new record. A blank line starts one
 * only if some label of the text occurs again, so a form with blank lines stays one record. A record has at least two pairs.
 */
export function pairRecords(lines: readonly string[]): PairRecord[] {
  const blocks: Pair[][] = [];
  let block: Pair[] = [];
  const taken = new Set<string>();
  const close = () => {
    if (block.length > 0) blocks.push(block);
    block = [];
    taken.clear();
  };
  for (let i = 0; i < lines.length; i++) {
    const pairs = pairsOfLine(lines, i);
    if ((lines[i] ?? "").trim() === "") close();
    const last = pairs.at(-1);
    // The labels of a line with several pairs belong together: if the block has one of them already, the line starts a new record.
    if (pairs.length > 1 && pairs.some(({ label }) => taken.has(label))) close();
    for (const pair of pairs) {
      if (taken.has(pair.label)) close();
      block.push(pair);
      taken.add(pair.label);
    }
    if (last !== undefined && Array.isArray(last.value)) i += last.value.length;
  }
  close();
  const labels = blocks.flatMap((pairs) => pairs.map(({ label }) => label));
  const isOneForm = new Set(labels).size === labels.length;
  const groups = isOneForm && blocks.length > 1 ? [blocks.flat()] : blocks;
  return groups.filter((pairs) => pairs.length >= 2).map(recordOf);
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

/** The pairs in line `i`: one pair, or several if every part of the line is a pair. */
export function pairsOfLine(lines: readonly string[], i: number): Pair[] {
  const line = (lines[i] ?? "").trim().replace(/^(?:(?:[-*•‣▪]|\d{1,3}[.)]) +)/, "");
  if (line === "" || line.length > 4096) return [];
  const logged = loggedPairs(line, i);
  if (logged.length > 0) return logged;
  for (const separator of [/ *\| */, /\t+| {2,}/, /; +/, /, +/]) {
    const parts = line.split(separator).filter((part) => part !== "");
    const pairs = parts.map((part) => pairOf(part, i));
    if (parts.length > 1 && pairs.every((pair) => pair !== undefined && pair.value !== "")) return pairs.filter((pair) => pair !== undefined);
  }
  const pair = pairOf(line, i);
  if (pair === undefined) return [];
  if (pair.value === "") {
    const items: string[] = [];
    for (let j = i + 1; j < lines.length && items.length < 1000; j++) {
      const item = /^\s*(?:[-*•‣▪]|\d{1,3}[.)]) +(.*)$/.exec(lines[j] ?? "")?.[1];
      if (item === undefined || pairOf(item, j) !== undefined) break;
      items.push(item);
    }
    return items.length > 0 ? [{ ...pair, value: items }] : [];
  }
  return [pair];
}

/** The pairs of a logfmt line, in which every word is `name=value` or `name="value"`. */
function loggedPairs(line: string, i: number): Pair[] {
  if (!/^[\w.-]{1,48}=/.test(line)) return [];
  const pairs: Pair[] = [];
  const word = /([\p{L}_][\w.-]{0,47})=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))(?:\s+|$)/uy;
  let end = 0;
  for (let match = word.exec(line); match !== null; match = word.exec(line)) {
    pairs.push({ label: match[1] ?? "", value: match[2]?.replace(/\\(.)/g, "$1") ?? match[3] ?? "", line: i });
    end = word.lastIndex;
  }
  return end === line.length ? pairs : [];
}

/** The pair in `Label: value`, `Label：value` or `Label = value`. A label is short, starts with a letter and has at most five words. */
function pairOf(text: string, line: number): Pair | undefined {
  const bare = text.trim();
  const at = /[:：]|\s=\s/.exec(bare.slice(0, LABEL_LENGTH + 4));
  if (at === null) return undefined;
  let label = bare.slice(0, at.index).trim();
  let value = bare.slice(at.index + at[0].length).trim();
  if (label.startsWith("**") && value.startsWith("**")) {
    // `**Label:** value` has the colon inside the Markdown marks.
    label += "**";
    value = value.slice(2).trim();
  }
  // An opening bracket that is not closed in the same line is code.
  if (/^[{[][^}\]]*$/.test(value)) return undefined;
  if (at[0] === ":" && /^\/\/|^\\/.test(bare.slice(at.index + 1))) return undefined;
  // `12:30`, `a:b` and `std::move` have no label: after a label, a space follows the colon, except in Chinese or Japanese text.
  if (at[0] === ":" && value !== "" && !/^\s|^\*\*/.test(bare.slice(at.index + 1)) && !/^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u.test(label))
    return undefined;
  label = memberName(label);
  if (label === "" || label.length > LABEL_LENGTH || !/^[\p{L}_]/u.test(label) || /[?!;,"<>{}[\]|=@]/.test(label)) return undefined;
  if (/\.(?!$| |\w)|[^.]\. \p{Lu}/u.test(label) || label.split(" ").length > 5) return undefined;
  return { label, value, line };
}
