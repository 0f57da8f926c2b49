// Words, index terms and sentences of a text, for summarize and classify.

// A word: letters and digits with their combining marks. An apostrophe or hyphen between letters, or a point or comma
// before a digit, does not end it. Each alternative starts with a different character, so the match is linear.
const WORD = /[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}]|['’\-‐](?=[\p{L}\p{N}])|[.,](?=\p{N}))*/gu;

// Scripts without spaces between words. A run of such characters does not show its words, so terms are pairs of characters.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** The words of `text`, as written. A script without spaces gives one word per unbroken run. */
function wordsOf(text: string): string[] {
  return text.match(WORD) ?? [];
}

/** The number of words in `text`, as in `word_count`. `don't`, `well-known` and `3.5` count as one word each. */
export function countWords(text: string): number {
  return wordsOf(text).length;
}

/**
 * The index terms of `text`, for the comparison of sentences: in lower case, without function words, without English
 * endings. Words of scripts without spaces become overlapping pairs of characters.
 */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const word of wordsOf(text)) {
    if (UNSPACED.test(word)) {
      const characters = Array.from(word);
      if (characters.length === 1) terms.push(word);
      for (let i = 0; i + 1 < characters.length; i++) terms.push(`${characters[i]}${characters[i + 1]}`);
      continue;
    }
    const lower = word.toLowerCase().replaceAll("’", "'");
    if (FUNCTION_WORDS.has(lower)) continue;
    terms.push(stem(lower));
  }
  return terms;
}

/** Cuts common English endings, so that `prices` equals `price`. A simple rule is enough: both sides are cut the same way. */
function stem(word: string): string {
  let base = word.endsWith("'s") ? word.slice(0, -2) : word;
  if (base.length > 5 && base.endsWith("ies")) return base.slice(0, -3);
  if (base.length > 6 && base.endsWith("ing")) base = base.slice(0, -3);
  else if (base.length > 5 && (base.endsWith("ed") || base.endsWith("es"))) base = base.slice(0, -2);
  else if (base.length > 3 && base.endsWith("s") && !base.endsWith("ss")) base = base.slice(0, -1);
  if (base.length > 4 && (base.endsWith("e") || base.endsWith("y"))) base = base.slice(0, -1);
  return base;
}

const FUNCTION_WORDS: ReadonlySet<string> = new Set(
  `a about above after again against all almost also although always am among an and another any are as at away be became
  because been before being below between both but by can cannot could did do does doing down during each either else even
  ever every few first for from further had has have having he her here hers him himself his how however i if in indeed into
  is it its itself just last least less let like made make many may me might mine more most much must my myself near neither
  never next no nobody nor not nothing now of off often on once one only or other others our ours out over own per quite
  rather same second several she should since so some still such take than that the their theirs them themselves then there
  these they this those though three through thus to together too two under until up upon us very was we well were what when
  where whether which while who whole whom whose why will with within without would yet you your yours yourself
  i'm i've i'd i'll it's that's there's don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't
  said say says according`.split(/\s+/),
);

// Quotes and brackets that can close a sentence after its punctuation mark.
const CLOSERS = `"'”’»)]}」』）】`;
// Punctuation marks that end a sentence even without a space after them.
const WIDE_STOPS = "。！？｡．।॥؟۔";

/** Splits one paragraph into sentences. An abbreviation, an initial, a decimal point or an ellipsis does not end a sentence. */
export function sentencesOf(paragraph: string): string[] {
  const sentences: string[] = [];
  let start = 0;
  for (let i = 0; i < paragraph.length; i++) {
    const char = paragraph[i] ?? "";
    const wide = WIDE_STOPS.includes(char);
    if (!wide && char !== "." && char !== "!" && char !== "?" && char !== "…") continue;
    let end = i + 1;
    while (end < paragraph.length && `.!?…${WIDE_STOPS}`.includes(paragraph[end] ?? "")) end++;
    const single = end === i + 1;
    while (end < paragraph.length && CLOSERS.includes(paragraph[end] ?? "")) end++;
    const last = end >= paragraph.length;
    const spaced = last || /\s/.test(paragraph[end] ?? "");
    if (last || wide || (spaced && !continues(paragraph, start, i, end, single && char === "."))) {
      sentences.push(paragraph.slice(start, end).trim());
      start = end;
    }
    i = end - 1;
  }
  if (start < paragraph.length) sentences.push(paragraph.slice(start).trim());
  return sentences.filter((sentence) => sentence !== "");
}

/** True if the sentence from `start` continues after the punctuation mark at `stop`. `end` is the index after the mark and its closing quotes or brackets. */
function continues(text: string, start: number, stop: number, end: number, isPoint: boolean): boolean {
  const next = text.slice(end, end + 3).trim();
  if (/^[\p{Ll},;]/u.test(next)) return true;
  if (!isPoint) return false;
  let from = stop;
  while (from > start && stop - from < 12 && /[\p{L}.]/u.test(text[from - 1] ?? "")) from--;
  const word = text.slice(from, stop).toLowerCase();
  if (OPEN_ABBREVIATIONS.has(word)) return true;
  if (NUMBER_ABBREVIATIONS.has(word)) return /^\d/.test(next);
  // An initial as in "J. Smith". The pronoun "I" can end a sentence.
  return word.length === 1 && word !== "i" && /^\p{Lu}$/u.test(text.slice(from, stop));
}

// The sentence always continues after these. "etc." and "Inc." are not listed: they can end a sentence, and the next letter decides.
const OPEN_ABBREVIATIONS: ReadonlySet<string> = new Set(
  "dr mr mrs ms prof st rev hon gen col capt lt sgt vs e.g i.e cf viz approx ca z.b d.h bzw u.a mme mlle m".split(" "),
);
const NUMBER_ABBREVIATIONS: ReadonlySet<string> = new Set("no nr fig eq sec vol ch p pp art jan feb mar apr jun jul aug sep sept oct nov dec".split(" "));
