const CLOSERS = `"'”’»)]}」』）】`;
const WIDE_STOPS = "。！？｡．।॥؟۔";

/** Splits one paragraph into sentences. Abbreviations, initials, decimals and ellipses inside a sentence do not end it. */
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

/** Whether the stop at `stop` leaves the sentence that began at `start` open; `end` is past the stop and its closing marks. */
function continues(text: string, start: number, stop: number, end: number, isPoint: boolean): boolean {
  const next = text.slice(end, end + 3).trim();
  if (/^[\p{Ll},;]/u.test(next)) return true;
  if (!isPoint) return false;
  let from = stop;
  while (from > start && stop - from < 12 && /[\p{L}.]/u.test(text[from - 1] ?? "")) from--;
  const word = text.slice(from, stop).toLowerCase();
  if (OPEN_ABBREVIATIONS.has(word)) return true;
  if (NUMBER_ABBREVIATIONS.has(word)) return /^\d/.test(next);
  // An initial as in "J. Smith"; the pronoun I ends sentences.
  return word.length === 1 && word !== "i" && /^\p{Lu}$/u.test(text.slice(from, stop));
}

// Always followed by more of the sentence; "etc.", "Inc." and the like may end it and are decided by the next letter.
const OPEN_ABBREVIATIONS: ReadonlySet<string> = new Set(
  "dr mr mrs ms prof st rev hon gen col capt lt sgt vs e.g i.e cf viz approx ca z.b d.h bzw u.a mme mlle m".split(" "),
);
const NUMBER_ABBREVIATIONS: ReadonlySet<string> = new Set("no nr fig eq sec vol ch p pp art jan feb mar apr jun jul aug sep sept oct nov dec".split(" "));
