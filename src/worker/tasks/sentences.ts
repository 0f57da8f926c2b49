/** A piece of text that stands for itself in a summary. */
export type Unit = {
  text: string;
  /** A heading names its section and says nothing; it is used only where nothing else exists. */
  kind: "sentence" | "item" | "heading";
};

// A line shorter than this that is not followed by a lower-case line is a line of its own, not wrapped prose.
const WRAPPED_LINE = 45;

/** Splits `text` into sentences, list items and headings, in order; every unit has a letter or digit. Linear in the text. */
export function unitsOf(text: string): Unit[] {
  const units: Unit[] = [];
  let paragraph = "";
  let previous = "";
  const flush = () => {
    for (const sentence of sentencesOf(paragraph)) units.push({ text: sentence, kind: "sentence" });
    paragraph = "";
  };
  let fenced = false;
  for (const raw of text.split(/\r\n|[\n\r\u2028\u2029]/)) {
    const line = raw.trim();
    if (line.startsWith("```") || line.startsWith("~~~")) {
      fenced = !fenced;
      flush();
      continue;
    }
    if (fenced) continue;
    const heading = /^#{1,6} +/.exec(line);
    const item = /^(?:[-*+•‣▪◦·–]|\d{1,3}[.)]|[a-z][.)]) +(?:\[[ xX]\] +)?/.exec(line);
    if (line === "" || /^[-=_*#]{3,}$/.test(line)) flush();
    else if (heading) {
      flush();
      units.push({ text: line.slice(heading[0].length), kind: "heading" });
    } else if (item) {
      flush();
      units.push({ text: line.slice(item[0].length), kind: "item" });
    } else if (/^\s/.test(raw) && paragraph === "" && previous !== "" && units.at(-1)?.kind === "item") {
      const above = units.pop();
      units.push({ text: `${above?.text} ${line}`, kind: "item" });
    } else {
      const wrapped = previous.length >= WRAPPED_LINE || /^\p{Ll}/u.test(line);
      if (paragraph !== "" && !wrapped) flush();
      paragraph += paragraph === "" ? line : ` ${line}`;
    }
    previous = line;
  }
  flush();
  // A text that is one fenced block has no prose; better its lines than nothing.
  if (units.length === 0) for (const line of text.split("\n")) units.push({ text: line.trim(), kind: "item" });
  return units.map(tidy).filter((unit) => /[\p{L}\p{N}]/u.test(unit.text));
}

function tidy(unit: Unit): Unit {
  return {
    ...unit,
    text: unit.text
      .replace(/\s+/g, " ")
      .replace(/\*\*|`/g, "")
      .trim(),
  };
}

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
