// Splits a text into units, sentences, words and index terms, for summarize and classify.

/** A piece of text that can be one sentence of a summary. */
export type Unit = {
  text: string;
  /**
   * A heading only names its section. A frame is a mail header, a greeting or a closing. Both are used only if the text has
   * nothing else. A turn is one line of a chat.
   */
  kind: "sentence" | "item" | "turn" | "heading" | "frame";
  /** True if the unit continues the sentence of the unit before it: a very long sentence is several units. */
  isContinued?: boolean;
};

// A shorter line ends its paragraph, unless the next line starts in lower case: wrapped prose has longer lines.
const WRAPPED_LINE = 45;
// The lines after "Kind regards," are at most this long. A longer line ends the closing.
const SENDER_LINE = 41;

/** Splits `text` into units, in order. Every unit has a letter or digit. The time is linear in the length of the text. */
export function unitsOf(text: string): Unit[] {
  const units: Unit[] = [];
  let paragraph = "";
  let previous = "";
  const add = (passage: string, kind: "sentence" | "item") => {
    for (const sentence of sentencesOf(passage)) {
      partsOf(sentence).forEach((part, i) => units.push({ text: part, kind, ...(i > 0 && { isContinued: true }) }));
    }
  };
  const flush = () => {
    add(paragraph, "sentence");
    paragraph = "";
  };
  let fenced = false;
  let isClosing = false;
  const lines = linesOf(text);
  const speakers = speakersIn(lines);
  const isWrapped = wrappingOf(lines);
  let isReply = false;
  for (const raw of lines) {
    isReply ||= ATTRIBUTION.test(raw.slice(0, 200).trim());
    const isQuoted = /^\s*>/.test(raw);
    const line = (isQuoted ? raw.replace(/^[\s>]+/, "") : raw).trim();
    if (line.length > SENDER_LINE) isClosing = false;
    if (line.startsWith("```") || line.startsWith("~~~")) {
      fenced = !fenced;
      flush();
      continue;
    }
    if (fenced) continue;
    const heading = /^#{1,6} +/.exec(line);
    const item = /^(?:(?:[-*+•‣▪◦·–]|\d{1,3}[.)]|[a-z][.)]) +(?:\[[ xX]\] +)?|\[[ xX]\] +)/.exec(line) ?? LOGGED.exec(line);
    const speaker = SPEAKER.exec(line)?.[1];
    const subject = /^(?:subject|betreff|objet|asunto) ?: *(?:(?:re|fwd?|aw) ?: *)*/i.exec(line);
    const above = units.at(-1);
    if (speaker !== undefined && speakers.has(speaker)) {
      flush();
      units.push({ text: line, kind: "turn" });
    } else if (isReply && (isQuoted || ATTRIBUTION.test(line))) {
      // The mail that this one answers.
      flush();
      units.push({ text: line, kind: "frame" });
    } else if (subject) {
      flush();
      units.push({ text: line.slice(subject[0].length), kind: "heading" });
    } else if (isFrame(line, paragraph === "" || previous.length < WRAPPED_LINE) || (isClosing && /^\p{L}[^.!?]{0,40}$/u.test(line))) {
      // The lines after "Kind regards," are the name and the position of the sender.
      isClosing ||= CLOSING.test(line);
      flush();
      units.push({ text: line, kind: "frame" });
    } else if (line === "" || /^[-=_*#]{3,}$/.test(line)) flush();
    else if (heading) {
      flush();
      units.push({ text: line.slice(heading[0].length), kind: "heading" });
    } else if (item) {
      flush();
      const content = line.slice(item[0].length);
      if (content.length > LONG_SENTENCE) add(content, "item");
      else units.push({ text: content, kind: "item" });
    } else if (/^\s/.test(raw) && paragraph === "" && previous !== "" && above?.kind === "item") {
      above.text += ` ${line}`;
    } else {
      if (paragraph !== "" && !isWrapped(previous, line)) flush();
      paragraph += paragraph === "" ? line : ` ${line}`;
    }
    previous = line;
  }
  flush();
  // A text that is one fenced block has no prose. Its lines are better than an empty summary.
  if (units.length === 0) for (const line of text.split("\n")) units.push({ text: line.trim(), kind: "item" });
  return units.map(tidy).filter((unit) => /[\p{L}\p{N}]/u.test(unit.text));
}

/** The lines of `text`, without the tags of HTML, and without the numbers and times of subtitles. */
function linesOf(text: string): string[] {
  const lines = (HTML.test(text) ? withoutTags(text) : text).split(/\r\n|[\n\r\u2028\u2029]/);
  if (!lines.some((line) => SUBTITLE_TIME.test(line))) return lines;
  return lines.filter((line) => !SUBTITLE_TIME.test(line) && !/^\d*$/.test(line.trim()));
}

const SUBTITLE_TIME = /^(?:\d\d:)?\d\d:\d\d[.,]\d{3} --> /;
const HTML = /<\/(?:p|div|li|td|h[1-6]|body|span)>|<br ?\/?>/i;
const BLOCK_TAG = /<\/?(?:p|div|li|ul|ol|tr|table|h[1-6]|br|body|title|blockquote)(?:\s[^<>]{0,1000})?\/?>/gi;
const INLINE_TAG = /<\/?[a-z!][a-z0-9-]{0,20}(?:\s[^<>]{0,1000})?\/?>/gi;
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["nbsp", " "],
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["#39", "'"],
  ["amp", "&"],
]);

function withoutTags(html: string): string {
  const [first = "", ...others] = html.split(/<(?:script|style)(?=[\s>])/i);
  // Scripts and styles are no text.
  const kept = others.map((part) => part.slice(Math.max(0, part.search(/<\/(?:script|style)>/i))));
  return [first, ...kept]
    .join("")
    .replace(/<h[1-6](?:\s[^<>]{0,1000})?>/gi, "\n\n# ")
    .replace(BLOCK_TAG, "\n\n")
    .replace(INLINE_TAG, "")
    .replace(/&(nbsp|lt|gt|quot|#39|amp);/g, (entity, name: string) => ENTITIES.get(name) ?? entity);
}

/** Tells whether a line continues the one before it. */
function wrappingOf(lines: readonly string[]): (previous: string, line: string) => boolean {
  if (lines.some((line) => /[.!?…](?:\s|$)/u.test(line))) return (previous, line) => previous.length >= WRAPPED_LINE || /^\p{Ll}/u.test(line);
  // Without any full stop only the lengths tell it: most lines are long, and the next word did not fit.
  const lengths = lines.map((line) => line.trim().length).filter((length) => length > 0);
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
  const isProse = lengths.filter((length) => length >= WRAPPED_LINE).length * 2 > lengths.length;
  return (previous, line) => isProse && previous.length + 1 + line.slice(0, WRAPPED_LINE).split(" ", 1).join("").length > longest;
}

// A longer sentence (in UTF-16 code units) is split, so that a text without punctuation can be shortened too.
const LONG_SENTENCE = 400;
const PART_LENGTH = 160;
const LEAST_PART = 60;
// Where a sentence is split, the best places first: after a semicolon, after a comma, before a conjunction, at any space.
const BREAKS = [
  /^[^]*[;:；：—–] */,
  /^[^]*(?:, |[，、،])/,
  /^[^]* (?=(?:and|but|so|because|then|which|that|und|aber|weil|dass|et|mais|parce|puis|y|pero|porque|entonces) )/,
  /^[^]* /,
];

/** The parts of a sentence if it is very long, else the sentence. Text is never split within a word, unless the word is longer than a part. */
function partsOf(sentence: string): string[] {
  if (sentence.length <= LONG_SENTENCE) return [sentence];
  const parts: string[] = [];
  let start = 0;
  while (sentence.length - start > PART_LENGTH) {
    const head = sentence.slice(start, start + PART_LENGTH);
    let length = BREAKS.map((place) => place.exec(head)?.[0].length ?? 0).find((found) => found >= LEAST_PART) ?? PART_LENGTH;
    if (/[\ud800-\udbff]/.test(head[length - 1] ?? "")) length--;
    parts.push(sentence.slice(start, start + length).trim());
    start += length;
  }
  return [...parts, sentence.slice(start).trim()].filter((part) => part !== "");
}

const SPEAKER = /^(?:\[?(?:\d{1,4}[./-]\d{1,2}[./-]\d{2,4},? )?\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?\]?(?: - )? *)?<?([\p{L}][\p{L}\p{N} ._'-]{0,24}?)>? ?: \S/u;

/** The names of the speakers if the text is a chat. A form also has `Name: text` lines, but each label only once. */
function speakersIn(lines: readonly string[]): ReadonlySet<string> {
  const turns = new Map<string, number>();
  let filled = 0;
  for (const line of lines) {
    if (line.trim() !== "") filled++;
    const name = SPEAKER.exec(line.trim())?.[1];
    if (name !== undefined) turns.set(name, (turns.get(name) ?? 0) + 1);
  }
  const all = [...turns.values()].reduce((sum, count) => sum + count, 0);
  const isChat = turns.size >= 2 && all >= 4 && all * 2 > filled && [...turns.values()].some((count) => count >= 2) && turns.size * 1.5 <= all;
  return new Set(isChat ? turns.keys() : []);
}

// A line of a log begins with a time or a level, a line of a stack trace with a place or the name of an error. It has no mark to cut off, so the match is
// empty.
const LOGGED =
  /^(?=File "|at \S{1,200} ?\(|[\w.]{1,100}(?:Error|Exception): |\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)(?![\p{L}\p{N}])))/u;

// The line above the mail that a mail answers.
const ATTRIBUTION = /^(?:On|Am|Le|El) .{5,150}(?:wrote|schrieb|a écrit|escribió).{0,60}:$/;

const MAIL_HEADER = /^(?:from|to|cc|bcc|date|sent|reply-to|von|an|gesendet|datum|de|à|para|fecha|attending|present|absent|apologies|anwesend|abwesend) ?: /i;
const GREETING =
  /^(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|liebe[rs]?|sehr geehrte[rs]?|guten tag|moin|bonjour|salut|cher|chère|hola|estimad[oa]s?|buenos días)(?: [\p{L}.'&-]+){0,4} ?[,!.]?$/iu;
const CLOSING =
  /^(?:(?:many |best |kind |warm |with (?:kind|best) )?(?:thanks|regards|wishes|cheers|greetings)(?: again| in advance)?|thank you(?: very much)?|yours (?:sincerely|faithfully|truly)|sincerely|best|take care|have a (?:nice|great|good) \w+|viele grüße|mit freundlichen grüßen|liebe grüße|beste grüße|cordialement|bien à vous|merci|saludos|atentamente|un saludo|gracias)(?: [\p{L}]+)? ?[,.!]*$/iu;

/** True if a line is a mail header, a greeting or a closing. `startsParagraph` is true if it is the first line of a paragraph. */
function isFrame(line: string, startsParagraph: boolean): boolean {
  return (
    startsParagraph && line.length < 120 && (MAIL_HEADER.test(line) || (line.length < 60 && (GREETING.test(line) || CLOSING.test(line) || /^-- ?$/.test(line))))
  );
}

// `[label](address)`, and an image with `!` before it.
const MARKDOWN_LINK = /(!?)\[([^[\]]{0,200})\]\([^()\s]{1,500}\)/g;

function tidy(unit: Unit): Unit {
  return {
    ...unit,
    text: unit.text
      .replace(/\s+/g, " ")
      .replace(MARKDOWN_LINK, (_, mark: string, label: string) => (mark === "!" ? "" : label))
      .replace(/\*\*|`/g, "")
      .replace(/(?<![\p{L}\p{N}*])\*(?=\S)([^*]{1,200})(?<=\S)\*(?![\p{L}\p{N}*])/gu, "$1")
      .trim(),
  };
}

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
  // The number of a clause: "2. If the Seller"
  if (stop - start < 6 && /^\s*\d{1,3}$/.test(text.slice(start, stop))) return true;
  // "am 3. Juni", "die 2. Auflage"
  if (/^\d/.test(text[stop - 1] ?? "") && GERMAN_ORDINAL.test(text.slice(Math.max(start, stop - 12), end + 11))) return true;
  let from = stop;
  while (from > start && stop - from < 12 && /[\p{L}.]/u.test(text[from - 1] ?? "")) from--;
  const word = text.slice(from, stop).toLowerCase();
  if (OPEN_ABBREVIATIONS.has(word)) return true;
  if (NUMBER_ABBREVIATIONS.has(word)) return /^\d/.test(next);
  // "z. B."
  if (word.length === 1 && /^\p{L}\.$/u.test(next)) return true;
  // An initial as in "J. Smith". The pronoun "I" can end a sentence.
  return word.length === 1 && word !== "i" && /^\p{Lu}$/u.test(text.slice(from, stop));
}

const GERMAN_ORDINAL =
  /(?<!\p{L})(?:der|dem|den|des|die|das|am|vom|zum|im|ab|bis|seit) \d{1,2}\. |(?<!\d)\d{1,2}\. (?:Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)/iu;

// The sentence always continues after these. "etc." and "Inc." are not listed: they can end a sentence, and the next letter decides.
const OPEN_ABBREVIATIONS: ReadonlySet<string> = new Set(
  "dr mr mrs ms prof st rev hon gen col capt lt sgt vs e.g i.e cf viz approx ca z.b d.h bzw u.a mme mlle m mio mrd tel inkl evtl ggf vgl sr sra dra".split(" "),
);
const NUMBER_ABBREVIATIONS: ReadonlySet<string> = new Set("no nr fig eq sec vol ch p pp art jan feb mar apr jun jul aug sep sept oct nov dec".split(" "));

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
