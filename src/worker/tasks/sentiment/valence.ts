import { NO_FEELING, WORDS } from "./lexicon.ts";

/** Valence of an English word in lower case, −3..3; 0 where it is not known. Endings are cut by rule. */
export function valenceOf(word: string): number {
  if (NO_FEELING.has(word)) return 0;
  const known = WORDS.get(word);
  if (known !== undefined) return known;
  for (const base of basesOf(word)) {
    if (NO_FEELING.has(base)) return 0;
    const valence = WORDS.get(base);
    if (valence !== undefined) return valence;
  }
  return 0;
}

/** What `word` may be a form of, nearest first. */
function* basesOf(word: string): Generator<string> {
  const length = word.length;
  if (length < 4) return;
  if (word.endsWith("'s")) yield word.slice(0, -2);
  if (word.endsWith("ies") || word.endsWith("ied") || word.endsWith("ier")) yield `${word.slice(0, -3)}y`;
  if (word.endsWith("iest") || word.endsWith("ness"))
    yield word.endsWith("iness") ? `${word.slice(0, -5)}y` : word.endsWith("iest") ? `${word.slice(0, -4)}y` : word.slice(0, -4);
  if (word.endsWith("ily")) yield `${word.slice(0, -3)}y`;
  for (const ending of ["s", "es", "ed", "ing", "er", "est", "ly", "d", "ings", "ers", "ingly", "edly"]) {
    if (!word.endsWith(ending)) continue;
    const stem = word.slice(0, -ending.length);
    if (stem.length < 3 || (ending === "d" && !stem.endsWith("e"))) continue;
    yield stem;
    if (ending === "s" || ending === "d") continue;
    yield `${stem}e`;
    // stopped, running
    if (stem.length > 3 && stem.at(-1) === stem.at(-2)) yield stem.slice(0, -1);
    // possibly, gently
    if (ending === "ly") yield `${stem}le`;
  }
}
