// The task classify: finds the sentiment of a text from the valences of its sentences.
import { sentencesOf } from "./segmentation.ts";
import { foreignValence, languageOf } from "./sentiment/languages.ts";
import { valenceOfSentence } from "./sentiment/sentence.ts";

/** The output of `classify`. `confidence` is 0..1 with at most four decimals. */
export type Classification = { sentiment: "positive" | "negative" | "neutral"; confidence: number };

// A weaker score is noise, so the text is neutral.
const THRESHOLD = 0.7;
// A longer sentence is scored in pieces of this many words: a line without punctuation must not count as one sentence.
const PIECE_WORDS = 60;
// Up to this many sentences the valences add up; for a longer text the average per sentence counts.
const SHORT_TEXT = 4;

/**
 * The sentiment of `input`, from the valences of its words, phrases, emoji, emoticons and stars. English has a full lexicon; German, French and Spanish
 * have a small one. In other languages only emoji, emoticons and stars count.
 */
export function classify(input: string): Classification {
  const language = languageOf(input);
  let sum = 0;
  let pieces = 0;
  for (const piece of piecesOf(input)) {
    sum += language === undefined ? valenceOfSentence(piece) : foreignValence(piece, language);
    pieces++;
  }
  if (pieces === 0) return { sentiment: "neutral", confidence: 0 };
  const score = sum / (pieces <= SHORT_TEXT ? Math.sqrt(pieces) : pieces / Math.sqrt(SHORT_TEXT));
  const strength = Math.abs(score);
  if (strength >= THRESHOLD) return { sentiment: score > 0 ? "positive" : "negative", confidence: round(0.5 + (0.5 * strength) / (strength + 2)) };
  // A text without emotional words can still be a complaint ("there was a hair in my soup"), so the confidence stays low.
  const readShare = language === undefined || language.stems.size > 0 ? latinShare(input) : 0;
  return { sentiment: "neutral", confidence: round((0.7 - 0.25 * (strength / THRESHOLD)) * (0.3 + 0.7 * readShare)) };
}

function round(share: number): number {
  return Math.round(share * 10_000) / 10_000;
}

// "Thanks, Anna" only closes a letter, so it has no valence. "Thanks!" is praise.
const CLOSING = /^(?:Many |Kind )?(?:[Tt]hanks|[Tt]hank you|[Tt]hx|Cheers)(?: again| in advance| very much| so much)?,(?: \p{Lu}[\p{L}.]{0,20}){0,2}$/u;

function* piecesOf(input: string): Generator<string> {
  let isFirst = true;
  for (const line of input.split(/[\n\r\u2028\u2029]+/)) {
    for (const sentence of sentencesOf(line)) {
      if (!isFirst && CLOSING.test(sentence)) continue;
      isFirst = false;
      const words = sentence.split(/\s+/);
      for (let i = 0; i < words.length; i += PIECE_WORDS) yield words.slice(i, i + PIECE_WORDS).join(" ");
    }
  }
}

/** The share of the letters of `text` that are Latin. The lexicons have no other script, so other letters lower the confidence. */
function latinShare(text: string): number {
  const letters = text.match(/\p{L}/gu)?.length ?? 0;
  return letters === 0 ? 0 : (text.match(/[a-zÀ-ÖØ-öø-\u024f]/gi)?.length ?? 0) / letters;
}
