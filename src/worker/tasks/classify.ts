import { sentencesOf } from "./sentences.ts";
import { EMOJI, PERSONAL, PHRASES, RELEASE_NOTE, TECHNICAL_CONTEXT, TECHNICAL_WORDS } from "./sentiment-rules.ts";
import { WORD_SENSES } from "./sentiment-words.ts";
import { compoundOf } from "./vader.ts";

/** Output of `classify`. `confidence` is 0..1 with at most four decimals. */
export type Classification = { sentiment: "positive" | "negative" | "neutral"; confidence: number };

// Below this mean compound, feeling is not distinguishable from wording.
const THRESHOLD = 0.12;
// Plain words may still tell a bad story ("there was a hair in my soup"), so silence proves little; a form of text that
// carries no feeling proves more. The values follow how often each was right on the corpus.
const SILENT = 0.55;
const FACTUAL = 0.85;
// VADER works on the whole of what it is given in quadratic steps; pieces keep it linear.
const PIECE_WORDS = 60;

/** Sentiment of `input`: VADER sentence by sentence over text that our rules have rewritten. English; other languages end neutral with low confidence. */
export function classify(input: string): Classification {
  let sum = 0;
  let feeling = 0;
  let factual = 0;
  let pieces = 0;
  for (const piece of piecesOf(input)) {
    const isFactual = isFactualForm(piece);
    const compound = compoundOf(rewrite(piece, isFactual));
    pieces++;
    if (isFactual || piece.endsWith("?")) factual++;
    if (compound === 0) continue;
    feeling++;
    sum += compound;
  }
  // A few warm words in a long report are not the report's mood: the mean over the sentences that feel anything is
  // damped by how few of them there are.
  const mean = feeling === 0 ? 0 : (sum / feeling) * Math.sqrt(feeling / pieces);
  const strength = Math.min(1, Math.abs(mean));
  if (strength >= THRESHOLD) return { sentiment: mean > 0 ? "positive" : "negative", confidence: round(0.5 + strength / 2) };
  const calm = pieces === 0 ? 0 : SILENT + (FACTUAL - SILENT) * (factual / pieces);
  return { sentiment: "neutral", confidence: round(calm * (1 - strength / THRESHOLD / 3) * (0.4 + 0.6 * englishShare(input))) };
}

function round(share: number): number {
  return Math.round(share * 10_000) / 10_000;
}

function* piecesOf(input: string): Generator<string> {
  const plain = input.replace(/[‘’ʼ]/g, "'").replace(/[“”„«»]/g, '"');
  for (const line of plain.split(/[\n\r\u2028\u2029]+/)) {
    for (const sentence of sentencesOf(line)) {
      const words = sentence.split(/\s+/);
      for (let i = 0; i < words.length; i += PIECE_WORDS) yield words.slice(i, i + PIECE_WORDS).join(" ");
    }
  }
}

/** Whether the sentence has the form of a change log or of technical prose, whose `error` and `fix` are nobody's mood. */
function isFactualForm(sentence: string): boolean {
  return RELEASE_NOTE.test(sentence) || (TECHNICAL_CONTEXT.test(sentence) && !PERSONAL.test(sentence));
}

/** The sentence as VADER should read it. */
function rewrite(sentence: string, isFactual: boolean): string {
  let text = isFactual ? sentence.replace(TECHNICAL_WORDS, "thing") : sentence;
  for (const { pattern, to } of PHRASES) text = text.replace(pattern, to);
  for (const { pattern, to } of EMOJI) text = text.replace(pattern, to);
  text = text.replace(/[a-z]+(?:-[a-z]+)*/gi, (word) => WORD_SENSES.get(word.toLowerCase()) ?? word);
  // VADER takes off one punctuation mark only: `(great)` and `great".` would be unknown words.
  return text.replace(/["()[\]{}*_~—–…]/g, " ").replace(/([\p{L}\p{N}])[,;:.]+(?=\s|$)/gu, "$1 ");
}

/** Share of the letters of `text` that are plain Latin ones. */
function englishShare(text: string): number {
  const letters = text.match(/\p{L}/gu)?.length ?? 0;
  return letters === 0 ? 0 : (text.match(/[a-z]/gi)?.length ?? 0) / letters;
}
