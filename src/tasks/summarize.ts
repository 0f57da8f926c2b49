// The task summarize: selects the best sentences of the text and joins them.
import { countWords, termsOf, type Unit, unitsOf } from "./segmentation.ts";

/** The output of `summarize`. `word_count` counts the words of `summary`, not of the input (see `countWords`). */
export type Summary = { summary: string; word_count: number };

// A summary has two of every five sentences, but at most five. Each hundred sentences of the text add one, up to eight.
const SHARE = 0.4;
const USUAL_MOST = 5;
const MOST = 8;
// A longer unit (in UTF-16 code units) is cut at a word, so that a text of one very long line is still shortened.
const UNIT_LENGTH = 400;
// A sentence this similar to a selected one is a duplicate and is left out. A less similar one loses this part of its score.
const DUPLICATE_SIMILARITY = 0.75;
const REPETITION_PENALTY = 0.5;
// The bonus of a sentence for each term that it shares with a heading or with the subject of a mail.
const HEADING_TERM_BONUS = 0.11;

/** The summary of `input`: its most important sentences, in their order. A text without a letter or digit gives "". */
export function summarize(input: string): Summary {
  const all = unitsOf(input);
  const body = all.filter(({ kind }) => kind !== "heading" && kind !== "frame");
  const units = body.length > 0 ? body : all;
  const headings = new Set(all.flatMap(({ kind, text }) => (kind === "heading" ? termsOf(text) : [])));
  // The time of a chat or log line says nothing about its content.
  const contents = units.map((unit) => ({ ...unit, text: unit.text.replace(TIME, "") }));
  const terms = contents.map(({ text }) => termsOf(text));
  const vectors = vectorsOf(terms);
  const ranks = textRank(vectors);
  const scores = contents.map((unit, i) => {
    const own = terms[i] ?? [];
    const inHeadings = Math.min(3, own.filter((term) => headings.has(term)).length);
    return Math.floor((ranks[i] ?? 0) * salienceOf(unit, own.length, i, units.length) * (1 + HEADING_TERM_BONUS * inHeadings));
  });
  const summary = join(units, new Set(choose(scores, vectors, wantedUnits(units.length))));
  return { summary, word_count: countWords(summary) };
}

const TIME = /^\[?(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:T|,? ))?\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?Z?(?: ?[AP]M)?\]?(?: -)? +/;

function wantedUnits(count: number): number {
  const usual = Math.min(USUAL_MOST, Math.max(1, Math.round(count * SHARE)));
  return Math.min(MOST, usual + Math.floor(count / 100));
}

/** The indices of the selected units, in the order of the text. A unit that repeats a selected one loses a part of its score. */
function choose(scores: readonly number[], vectors: SentenceVectors, wanted: number): number[] {
  const chosen: number[] = [];
  const similarity = scores.map(() => 0);
  while (chosen.length < wanted) {
    let best = -1;
    let bestScore = -1;
    scores.forEach((score, i) => {
      const toChosen = similarity[i] ?? 0;
      const reduced = Math.floor(score * (1 - REPETITION_PENALTY * toChosen));
      if (toChosen < DUPLICATE_SIMILARITY && reduced > bestScore) {
        best = i;
        bestScore = reduced;
      }
    });
    if (best < 0) break;
    chosen.push(best);
    similaritiesTo(vectors, best).forEach((toBest, i) => {
      similarity[i] = i === best ? 1 : Math.max(similarity[i] ?? 0, toBest);
    });
  }
  return chosen.sort((a, b) => a - b);
}

// An opening that refers to the previous sentence.
const LINK_TO_PREVIOUS =
  /^(?:(?:however|but|therefore|moreover|furthermore|besides|in addition|also|then|still|nevertheless|by the way|of course|meanwhile|so),|but|and|aber|doch|mais|pero) +(?=[\p{L}\p{N}])/iu;

/** The text of a unit, cut to `UNIT_LENGTH`, with an ellipsis where it is a part of a sentence and the part beside it is not in the summary. */
function textOf(units: readonly Unit[], i: number, chosen: ReadonlySet<number>): string {
  const before = units[i]?.isContinued === true && !chosen.has(i - 1) ? "…" : "";
  const after = units[i + 1]?.isContinued === true && !chosen.has(i + 1) ? "…" : "";
  const text = `${before}${cut(units[i]?.text ?? "")}${after}`;
  if (i === 0 || chosen.has(i - 1) || units[i]?.kind !== "sentence") return text;
  const bare = text.replace(LINK_TO_PREVIOUS, "");
  // Only after a cut: "iPhone" is written so.
  return bare === text ? text : bare.replace(/^[a-zà-öø-þ]/, (first) => first.toUpperCase());
}

function join(units: readonly Unit[], chosen: ReadonlySet<number>): string {
  let summary = "";
  for (const i of chosen) {
    let text = textOf(units, i, chosen);
    if (summary.endsWith("…")) text = text.replace(/^…/, "");
    // List items often have no final punctuation. Joined in one line, they need a full stop between them.
    const isOpen = units[i + 1]?.isContinued === true;
    if (chosen.size > 1 && !isOpen && /[\p{L}\p{N})\]"'”’]$/u.test(text) && !/[.!?…。！？]["'”’)\]]+$/.test(text.slice(-6))) text += ".";
    summary += summary === "" || /[。！？」』，、；：]$/.test(summary) ? text : ` ${text}`;
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

// Words (or their beginnings) for decisions, findings, causes and deadlines, in English, German, French and Spanish.
const CUES =
  /(?<!\p{L})(?:decid|announc|agree[ds]?\b|adopt|approv|found\b|finding|conclud|conclusion|show[sn]?\b|reveal|caus|because|due to|result|therefore|so that|will\b|must\b|need|require|recommend|should|suggest|advis|plan(?:s|ned)?\b|propos|deadline|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|before\b|until\b|instead|replac|increas|decreas|rose\b|fell\b|cut\b|reduc|doubl|cost|million|billion|percent|expect|warn|never\b|cannot|only if|at least|more than|first|last\b|best\b|most\b|main\b|important|problem|fail|fix|error|no longer|from now on|beschlo|stimm|kosten|kostet|deshalb|weil|grund|wegen|soll|wird|werden|müssen|muss|millionen|prozent|geschlossen|bis\b|ouvrir|annonc|décid|coût|million|gratuit|depuis|après|pendant|attend|sera\b|seront|deb|costar|costará|millones|empezar|tendrá|porque|será|presentó|prometió|decidi)/giu;

// The rules below look at this many characters only, because a longer sentence is cut in the summary.
const HEAD = UNIT_LENGTH;

const QUESTION = /[?？؟]["'”’»)]*$/;
const QUOTED = /^["“„«'‘]/;
const DANGLING =
  /^(?:he|she|it|they|this|that|these|those|such|here|there|his|her|their|its|nobody|nothing|yes|no|maybe|perhaps|sure|er|sie|es|das|dies|diese|dort|dabei|il|elle|ils|elles|cela|c'est|ce|eso|esto|ella|ellos)(?![\p{L}])/iu;
const PERSONAL = /(?<![\p{L}'])(?:i|my|me|i'm|i've)(?![\p{L}])/iu;
const CONNECTIVE =
  /^(?:however|but|and|so|therefore|moreover|furthermore|besides|also|in addition|then|of course|in fact|indeed|still|yet|nevertheless|meanwhile|by the way|on another note|likewise|similarly|aber|doch|jedoch|außerdem|deshalb|mais|cependant|pero|sin embargo|además)(?![\p{L}'-])/iu;

// The levels of log lines, within the first characters.
const LOG_SEVERE = /^.{0,60}(?<!\p{L})(?:WARN|WARNING|ERROR|FATAL|CRITICAL|ALERT|PANIC)(?!\p{L})|^[\w.]{1,100}(?:Error|Exception): /u;
const LOG_QUIET = /^.{0,60}(?<!\p{L})(?:TRACE|DEBUG|INFO|NOTICE)(?!\p{L})|^(?:File "|at \S{1,200} ?\()/u;

const FILLER =
  /^(?:thanks?\b|thank you|hope\b|i hope|have a|sorry|congratulations|welcome|by the way|on another note|first of all|many thanks|danke|vielen dank|merci|gracias|übrigens|meet\b|of course)/iu;

// A sentence with fewer index terms than this loses weight.
const FULL_TERMS = 9;

/** The weight of a unit: higher for facts that a reader would miss, lower for questions, fillers and unclear references. */
function salienceOf({ text, kind }: Unit, terms: number, position: number, count: number): number {
  const head = text.slice(0, HEAD);
  // The power 3/4 of the relative length: a sentence of two terms loses much, one of six terms loses little.
  const length = Math.min(1, terms / FULL_TERMS);
  let weight = Math.sqrt(length) * Math.sqrt(Math.sqrt(length));
  // "But the room!" says nothing alone.
  if (terms < 2) weight *= 0.2;
  if (QUESTION.test(text.slice(-4))) weight *= 0.8;
  if (QUOTED.test(head)) weight *= 0.95;
  if (FILLER.test(head)) weight *= 0.5;
  if (DANGLING.test(head)) weight *= 0.85;
  if (CONNECTIVE.test(head)) weight *= 0.7;
  if (kind !== "turn" && PERSONAL.test(head)) weight *= 0.8;
  weight *= 1 + 0.15 * Math.min(3, head.match(CUES)?.length ?? 0);
  weight *= 1 + 0.13 * Math.min(2, head.match(/\d[\d.,:]*/g)?.length ?? 0);
  // Errors are seldom similar to the other lines, but they are what a reader of a log looks for.
  weight *= LOG_SEVERE.test(head) ? 6 : LOG_QUIET.test(head) ? 0.7 : 1;
  // The cues are words of Latin script. In another script the place is the best sign: the beginning of a report says what it is about.
  if (position === 0 && count > 3) return weight * (isLatin(head) ? 0.9 : 1.4);
  return position === 1 && count > 6 ? weight * 1.1 : weight;
}

function isLatin(text: string): boolean {
  return (text.match(/\p{Script=Latin}/gu)?.length ?? 0) * 2 >= (text.match(/\p{L}/gu)?.length ?? 0);
}

const ITERATIONS = 30;
const DAMPING = 0.85;
// Scores are compared as integers, so that rounding in two JavaScript engines cannot give two different orders.
const SCALE = 1_000_000;

/** The sentences as sparse unit vectors; each term of the text is one dimension. */
type SentenceVectors = { readonly rows: ReadonlyArray<ReadonlyArray<readonly [term: number, weight: number]>>; readonly terms: number };

/** Turns the terms of each sentence into a unit vector. A term weighs more if fewer sentences have it. */
function vectorsOf(sentences: readonly (readonly string[])[]): SentenceVectors {
  const ids = new Map<string, number>();
  const sentenceCounts: number[] = [];
  const counted = sentences.map((terms) => {
    const counts = new Map<number, number>();
    for (const term of terms) {
      let id = ids.get(term);
      if (id === undefined) ids.set(term, (id = ids.size));
      const count = counts.get(id) ?? 0;
      if (count === 0) sentenceCounts[id] = (sentenceCounts[id] ?? 0) + 1;
      counts.set(id, count + 1);
    }
    return counts;
  });
  const rows = counted.map((counts) => {
    let squares = 0;
    const row: [number, number][] = [];
    for (const [id, count] of counts) {
      // A square root in place of the usual logarithm: engines may round a logarithm differently, but not a square root.
      const weight = count * Math.sqrt(sentences.length / (sentenceCounts[id] ?? 1));
      squares += weight * weight;
      row.push([id, weight]);
    }
    const length = Math.sqrt(squares);
    return row.map(([id, weight]) => [id, weight / length] as const);
  });
  return { rows, terms: ids.size };
}

/**
 * TextRank: a sentence ranks high if it is similar to many sentences that rank high. Ranks are integers with a mean of about
 * 1,000,000. The similarity matrix S = A·Aᵀ is never computed: each step multiplies by Aᵀ and then by A. So the cost grows
 * with the number of words and not with the square of the number of sentences.
 */
function textRank({ rows, terms }: SentenceVectors): number[] {
  const neighbours = (values: readonly number[]): number[] => {
    const byTerm = new Float64Array(terms);
    rows.forEach((row, i) => {
      for (const [term, weight] of row) byTerm[term] = (byTerm[term] ?? 0) + weight * (values[i] ?? 0);
    });
    return rows.map((row, i) => {
      let sum = 0;
      for (const [term, weight] of row) sum += weight * (byTerm[term] ?? 0);
      // The similarity of a sentence to itself is exactly 1 and must not count.
      return row.length === 0 ? 0 : Math.max(0, sum - (values[i] ?? 0));
    });
  };
  const degrees = neighbours(rows.map(() => 1));
  let ranks = rows.map(() => 1);
  for (let step = 0; step < ITERATIONS; step++) {
    const shares = ranks.map((rank, i) => ((degrees[i] ?? 0) > 1e-6 ? rank / (degrees[i] ?? 1) : 0));
    ranks = neighbours(shares).map((received) => 1 - DAMPING + DAMPING * received);
  }
  return ranks.map((rank) => Math.round(rank * SCALE));
}

/** The cosine similarities of sentence `a` with every sentence, 0..1. */
function similaritiesTo({ rows }: SentenceVectors, a: number): number[] {
  const weights = new Map(rows[a] ?? []);
  return rows.map((row) => {
    let sum = 0;
    for (const [term, weight] of row) sum += weight * (weights.get(term) ?? 0);
    return sum;
  });
}
