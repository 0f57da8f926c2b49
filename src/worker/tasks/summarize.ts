import { unitsOf } from "./sentences.ts";
import type { Unit } from "./sentences.ts";
import { similarity, textRank, vectorsOf } from "./text-rank.ts";
import { countWords, termsOf } from "./words.ts";

/** Output of `summarize`. `word_count` counts the words of `summary`, not of the input (see `countWords`). */
export type Summary = { summary: string; word_count: number };

// One sentence of three, at most five, and one more per hundred sentences up to eight.
const SHARE = 1 / 3;
const USUAL_MOST = 5;
const MOST = 8;
// A unit longer than this many UTF-16 units is cut at a word: one endless line must not be its own summary.
const UNIT_LENGTH = 400;
// Sentences that share this much say the same thing.
const SAME = 0.75;
// A sentence with fewer terms than this carries little, however central its words.
const FULL_TERMS = 9;

/** Summary of `input` by its own most central sentences, in their order. Text without a letter or digit yields "". */
export function summarize(input: string): Summary {
  const all = unitsOf(input);
  const body = all.filter((unit) => unit.kind !== "heading");
  const units = body.length > 0 ? body : all;
  const terms = units.map((unit) => termsOf(unit.text));
  const vectors = vectorsOf(terms);
  const scores = textRank(vectors).map((rank, i) => Math.floor(rank * weightOf(units[i]?.text ?? "", terms[i]?.length ?? 0)));
  const order = scores.map((_, i) => i).sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b);

  const wanted = wantedUnits(units.length);
  const chosen: number[] = [];
  for (const candidate of order) {
    if (chosen.length === wanted) break;
    if (chosen.every((other) => similarity(vectors, candidate, other) < SAME)) chosen.push(candidate);
  }
  const summary = join(chosen.sort((a, b) => a - b).flatMap((i) => units[i] ?? []));
  return { summary, word_count: countWords(summary) };
}

function wantedUnits(count: number): number {
  const usual = Math.min(USUAL_MOST, Math.max(1, Math.round(count * SHARE)));
  return Math.min(MOST, usual + Math.floor(count / 100));
}

/** How much of its rank a sentence keeps: short ones and questions keep less. */
function weightOf(text: string, terms: number): number {
  const length = Math.sqrt(Math.min(1, terms / FULL_TERMS));
  return /[?？؟]["'”’»)]*$/.test(text.slice(-4)) ? length * 0.7 : length;
}

function join(units: readonly Unit[]): string {
  let summary = "";
  for (const unit of units) {
    let text = cut(unit.text);
    // List items often end bare; side by side they need a stop between them.
    if (units.length > 1 && /[\p{L}\p{N})\]"'”’]$/u.test(text) && !/[.!?…。！？]["'”’)\]]+$/.test(text.slice(-6))) text += ".";
    summary += summary === "" || /[。！？」』]$/.test(summary) ? text : ` ${text}`;
  }
  return summary;
}

function cut(text: string): string {
  if (text.length <= UNIT_LENGTH) return text;
  const head = text.slice(0, UNIT_LENGTH);
  const space = head.lastIndexOf(" ");
  let end = space > UNIT_LENGTH / 2 ? space : UNIT_LENGTH;
  const unit = head.charCodeAt(end - 1);
  if (unit >= 0xd800 && unit <= 0xdbff) end--;
  return `${head.slice(0, end)}…`;
}
