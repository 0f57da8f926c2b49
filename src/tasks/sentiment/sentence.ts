// Scores one English sentence for classify: words and phrases, with negation, contrast, wishes, questions and emphasis.
import { valenceOf } from "./lexicon.ts";
import { phraseAt } from "./phrases.ts";
import { ratingOf, signOf, type Token, tokensOf } from "./tokens.ts";

// Factors for the valence of a word in its context. They were chosen on English reviews, messages and news that are not part
// of the corpus. Small changes of a value make little difference.
const NEGATION_REACH = 3;
// "I don't think that this is good" and "nor the waiters were good" negate more than the next words.
const FAR_NEGATION_REACH = 7;
const NEGATED_PRAISE = -0.9;
const NEGATED_BLAME = -0.4;
// A negative word after an absolute negator: "never lost", "no problem".
const ABSOLUTELY_NEGATED_BLAME = -0.7;
// A negated comparison is praise: "never happier", "won't find a better".
const NEGATED_COMPARISON = 1.2;
// "Do not freeze" is an instruction and does not say that something did not freeze.
const FORBIDDEN = -0.2;
// "Call us if it is broken"
const CONDITIONAL_BLAME = 0.3;
const BOOST = 1.7;
const DAMPING = 0.7;
const BEFORE_BUT = 0.6;
const AFTER_BUT = 1.7;
const CONCEDED = 0.5;
const UNREAL_PRAISE = 0.2;
const ASKED_PRAISE = 0.25;
const ASKED_BLAME = 0.8;
const PER_EXCLAMATION = 0.4;
const LOUD = 1.1;
// A negator without a word to negate. "It won't print" usually is a complaint about a thing. A plain "not" is a complaint less often, and
// so is "I can't come", which tells what a person does.
const BARE_NEGATION = -0.65;
const BARE_FAILURE = -0.9;
const IRONY = -3;
const IRONIC_BELOW = -1;

const NEGATORS: ReadonlySet<string> = new Set(
  "not n't no never without neither nor none nobody nothing nowhere hardly barely scarcely rarely seldom less anything-but far-from nowhere-near failed-to".split(
    " ",
  ),
);
const FAILURES: ReadonlySet<string> = new Set("won't can't couldn't wouldn't didn't wasn't weren't doesn't haven't hasn't failed-to".split(" "));
const ABSOLUTE: ReadonlySet<string> = new Set("no never without none neither nor nothing".split(" "));
// With a comparison ("better", "happier") these negators praise.
const COMPARISON_NEGATORS: ReadonlySet<string> = new Set("no never nobody nothing couldn't can't won't wouldn't".split(" "));
const BOOSTERS: ReadonlySet<string> = new Set(
  `very really so extremely absolutely totally completely incredibly super highly truly especially particularly deeply utterly damn fucking insanely
  such most too quite exceptionally remarkably pretty way much all freaking extra hugely seriously always every`.split(/\s+/),
);
const DAMPERS: ReadonlySet<string> = new Set(
  "slightly somewhat bit little kinda sorta partly mildly fairly rather almost sometimes occasionally relatively reasonably marginally tad".split(" "),
);
const CONTRASTS: ReadonlySet<string> = new Set("but however yet nevertheless nonetheless except unfortunately sadly still".split(" "));
const CONCESSIONS: ReadonlySet<string> = new Set("although though despite while whilst notwithstanding albeit".split(" "));
const SUBJECTS: ReadonlySet<string> = new Set("i we you he she it they".split(" "));
const PERSONS: ReadonlySet<string> = new Set("i we you he she".split(" "));
// Verbs of a rule: "must not".
const RULES: ReadonlySet<string> = new Set("may must should shall mustn't shouldn't needn't shan't".split(" "));
const UNREAL: ReadonlySet<string> = new Set("wish wished hoped supposed wanted promised if claimed claims thought should".split(" "));
const CONDITIONALS: ReadonlySet<string> = new Set("would could might should".split(" "));
const FAR_NEGATORS: ReadonlySet<string> = new Set(["neither", "nor"]);
const OPINION_VERBS: ReadonlySet<string> = new Set("think believe find feel consider call".split(" "));
// Words before "like" that make it a verb.
const BEFORE_VERB_LIKE: ReadonlySet<string> = new Set(
  "i we you they he she really do don't didn't doesn't does did also who people kids would not to".split(" "),
);

// An exclamation at the beginning of a sentence, which may be ironic.
const CHEER =
  /^["'(]?(?:oh |ah |how )?(?:great|wow|brilliant|wonderful|fantastic|lovely|perfect|awesome|super|nice|congratulations|congrats|bravo|splendid|well done|(?:nice|good|great) (?:job|work)|sure|thanks|thank you)\s?[,.!…]+\s*/i;
const AGAIN = /^(?:yet )?(?:another|again|now|just what|just as|because)\b/i;

/** A word, sign or phrase with a valence. `at` is the index of its first token. Only a word can be negated: "no :(" is no praise. */
type Finding = { readonly at: number; readonly valence: number; readonly isWord: boolean };

/**
 * The valence of an English sentence: the sum of the valences of its words and phrases, each in its context. It is 0 for a
 * neutral sentence and about ±2 for one clear word. The time is linear in the length of the sentence.
 */
export function valenceOfSentence(sentence: string): number {
  const cheer = CHEER.exec(sentence)?.[0] ?? "";
  if (cheer !== "") {
    const rest = sentence.slice(cheer.length);
    if (AGAIN.test(rest)) return IRONY;
    // Praise before a complaint is irony: "Well done, you lost my luggage."
    const valence = CHEER.test(rest) ? 0 : valenceOfSentence(rest);
    if (valence <= IRONIC_BELOW) return valence - 1;
  }
  const tokens = tokensOf(sentence);
  const isFactual = isFactualForm(sentence);
  const { findings, taken } = findingsIn(tokens, isFactual);
  const contrast = lastContrast(tokens);
  const isQuestion = /\?["')]*$/.test(sentence);
  const negatorsUsed = new Set<number>();
  let sum = 0;
  for (const { at, valence, isWord } of findings) {
    let value = valence * emphasisAt(tokens, at);
    if (isWord) {
      const negator = negatorBefore(tokens, taken, at);
      if (negator >= 0) {
        negatorsUsed.add(negator);
        value *= isProhibition(tokens, negator) ? FORBIDDEN : negationOf(tokens, negator, at, value);
      }
      if (value > 0 && isUnreal(tokens, at)) value *= UNREAL_PRAISE;
    }
    if (value < 0 && isAfterIf(tokens, at)) value *= CONDITIONAL_BLAME;
    if (contrast >= 0) value *= at < contrast ? BEFORE_BUT : AFTER_BUT;
    if (isConceded(tokens, at)) value *= CONCEDED;
    if (isQuestion) value *= value > 0 ? ASKED_PRAISE : ASKED_BLAME;
    sum += value;
  }
  if (!isFactual) {
    tokens.forEach(({ text }, i) => {
      if (taken[i] === 0 && isNegator(text) && text !== "less" && !negatorsUsed.has(i) && !isRule(tokens, i) && !(isQuestion && i === 0))
        sum += bareNegation(tokens, i) * (isQuestion ? ASKED_BLAME : 1);
    });
  }
  const exclamations = Math.min(3, sentence.split("!", 4).length - 1);
  return sum + Math.sign(sum) * exclamations * PER_EXCLAMATION;
}

/** The words and phrases with a valence, in order. `taken` marks the tokens that belong to a phrase. */
function findingsIn(tokens: readonly Token[], isFactual: boolean): { findings: Finding[]; taken: Uint8Array } {
  const findings: Finding[] = [];
  const taken = new Uint8Array(tokens.length);
  for (let i = 0; i < tokens.length;) {
    const phrase = phraseAt(tokens, i);
    if (phrase !== undefined && !(isFactual && phrase.valence !== 0 && Math.abs(phrase.valence) <= 2)) {
      findings.push({ at: i, valence: phrase.valence, isWord: false });
      taken.fill(1, i, phrase.end);
      i = phrase.end;
      continue;
    }
    const token = tokens[i];
    if (token?.kind === "sign") findings.push({ at: i, valence: signOf(token.text), isWord: false });
    if (token?.kind === "word" && !(isFactual && TECHNICAL_WORDS.test(token.text))) findings.push({ at: i, valence: valenceOfToken(tokens, i), isWord: true });
    i++;
  }
  return { findings: findings.filter(({ valence }) => valence !== 0), taken };
}

function valenceOfToken(tokens: readonly Token[], i: number): number {
  const text = tokens[i]?.text ?? "";
  const rating = /^(\d{1,3}(?:[.,]\d)?)\/(5|10|100)$/.exec(text) ?? (tokens[i + 1]?.text === "stars" ? /^([0-5](?:[.,]\d)?)()$/.exec(text) : null);
  if (rating !== null) return ratingOf(Number(rating[1]?.replace(",", ".")), Number(rating[2]) || 5);
  // "Ok, see you there" agrees and does not praise.
  if ((text === "ok" || text === "okay") && i === 0 && tokens.length > 2) return 0;
  // "Super!" has a valence; in "super fast" it is a booster.
  if (text === "super" && tokens[i + 1]?.kind !== "word") return 2;
  // "I like it" has a valence; "it is like this" has none.
  if (text === "like") return BEFORE_VERB_LIKE.has(tokens[i - 1]?.text ?? "") ? 1.5 : 0;
  return valenceOf(text);
}

function isNegator(text: string): boolean {
  return NEGATORS.has(text) || text.endsWith("n't");
}

/** True if the negator at `i` belongs to a rule or a condition: "You must not open it", "if you do not know it". */
function isRule(tokens: readonly Token[], i: number): boolean {
  if (RULES.has(tokens[i]?.text ?? "") || RULES.has(tokens[i - 1]?.text ?? "")) return true;
  return isProhibition(tokens, i) || isAfterIf(tokens, i);
}

/** True if the negator at `i` forbids something: "Do not open", "Please don't smoke". */
function isProhibition(tokens: readonly Token[], i: number): boolean {
  const isTwoWords = tokens[i]?.text === "not" && tokens[i - 1]?.text === "do";
  if (!isTwoWords && tokens[i]?.text !== "don't") return false;
  const before = tokens[isTwoWords ? i - 2 : i - 1];
  return before?.kind !== "word" || before.text === "please";
}

/** True if shortly before the token at `at`, in the same clause, stands "if". */
function isAfterIf(tokens: readonly Token[], at: number): boolean {
  for (let i = at - 1; i >= Math.max(0, at - 4) && tokens[i]?.kind === "word"; i--) if (tokens[i]?.text === "if") return true;
  return false;
}

/** The valence of the negator at `i`, which negates no word with a valence. */
function bareNegation(tokens: readonly Token[], i: number): number {
  return FAILURES.has(tokens[i]?.text ?? "") && !PERSONS.has(tokens[i - 1]?.text ?? "") ? BARE_FAILURE : BARE_NEGATION;
}

function emphasisAt(tokens: readonly Token[], at: number): number {
  let factor = tokens[at]?.isLoud === true ? LOUD : 1;
  for (let i = at - 1; i >= Math.max(0, at - 2); i--) {
    const before = tokens[i];
    if (before?.kind !== "word") break;
    if (BOOSTERS.has(before.text)) factor *= BOOST;
    else if (DAMPERS.has(before.text)) factor *= DAMPING;
    // In "so bad lol" the booster belongs to the word between.
    else if (valenceOf(before.text) !== 0) break;
  }
  return factor;
}

/** The factor that a negator applies to the valence of a word. */
function negationOf(tokens: readonly Token[], negatorAt: number, at: number, value: number): number {
  const [negator = "", before = "", word = ""] = [negatorAt, at - 1, at].map((i) => tokens[i]?.text);
  // "couldn't be more disappointed", "never been so happy"
  if ((before === "more" && COMPARISON_NEGATORS.has(negator) && negator !== "no") || (before === "so" && negator === "never")) return NEGATED_COMPARISON;
  if (word === "worse" && (negator === "couldn't" || negator === "can't")) return NEGATED_COMPARISON;
  if (value < 0) return ABSOLUTE.has(negator) ? ABSOLUTELY_NEGATED_BLAME : NEGATED_BLAME;
  return COMPARISON_NEGATORS.has(negator) && (word === "better" || word.endsWith("ier")) ? NEGATED_COMPARISON : NEGATED_PRAISE;
}

/** The index of the negator of the word at `at`, or −1. It stands shortly before the word, in the same clause, and in no phrase. */
function negatorBefore(tokens: readonly Token[], taken: Uint8Array, at: number): number {
  for (let i = at - 1; i >= Math.max(0, at - FAR_NEGATION_REACH); i--) {
    const token = tokens[i];
    if (token?.kind !== "word" || CONTRASTS.has(token.text) || token.text === "because") return -1;
    const isNear = at - i <= NEGATION_REACH || FAR_NEGATORS.has(token.text) || OPINION_VERBS.has(tokens[i + 1]?.text ?? "");
    if (isNear && taken[i] === 0 && isNegator(token.text)) return i;
  }
  return -1;
}

/** True if the word is part of a wish, a promise or a condition: "should have been great". */
function isUnreal(tokens: readonly Token[], at: number): boolean {
  for (let i = at - 1; i >= Math.max(0, at - 5); i--) {
    const token = tokens[i];
    if (token === undefined || (token.kind === "stop" && token.text !== ",")) return false;
    if (UNREAL.has(token.text) || (CONDITIONALS.has(token.text) && tokens[i + 1]?.text === "have")) return true;
  }
  return false;
}

/** The index of the last word of contrast ("but"), or −1. The text after it counts more than the text before it. */
function lastContrast(tokens: readonly Token[]): number {
  for (let i = tokens.length - 2; i > 0; i--) {
    const text = tokens[i]?.text ?? "";
    if (text === "but" || text === "however" || text === "nevertheless" || (CONTRASTS.has(text) && tokens[i - 1]?.kind === "stop")) return i;
  }
  return -1;
}

/**
 * True if the word at `at` belongs to a clause with "although" or "despite", which ends at the next punctuation mark. The
 * words after "despite" have no subject, so a subject such as "we" ends its clause too.
 */
function isConceded(tokens: readonly Token[], at: number): boolean {
  let hasSubject = false;
  for (let i = at - 1; i >= Math.max(0, at - 12); i--) {
    const token = tokens[i];
    if (token === undefined || token.kind === "stop") return false;
    if (SUBJECTS.has(token.text)) hasSubject = true;
    if (CONCESSIONS.has(token.text)) return !(hasSubject && token.text === "despite");
  }
  return false;
}

/** A line of a change log starts with a version or a verb. It reports what was fixed and is neutral. */
const RELEASE_NOTE =
  /^\s*(?:[-*] )?(?:(?:version|release|v)\.? ?\d{1,4}(?:\.\d{1,4}){0,3}\S{0,8},? (?:\w+ )?)?(?:add|adds|added|fix|fixes|fixed|remove|removes|removed|update|updates|updated|bump|bumps|improve|improves|improved|deprecate|deprecates|deprecated|refactor|refactored|rename|renamed|drop|drops|dropped|support|supports|allow|allows|introduce|introduces|introduced|resolve|resolves|resolved|change|changes|changed|handle|handles|revert|reverts|reverted)\b/i;

/** A line of a log starts with a date or a level. */
const LOG_LINE = /^\s*\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)(?![\p{L}\p{N}!])|(?:[A-Z]\w{0,60})?Error: )/u;

/** Nouns that show a technical sentence. */
const TECHNICAL_CONTEXT =
  /(?<![\w'])(?:function|method|parameter|argument|returns|return (?:code|type|value)|requests?|responses?|status(?: code)?|endpoint|null|config(?:uration)?|mutex|thread|process|queue|socket|server|client|database|table|schema|key|token|cache|worker|heartbeat|chapter|documentation|documented|section|default|timeout|retry|handling|exception|compiler|button|field|file name|api|http|json|parser|memory|kernel|log|login|cookies?|settings|dialog|password|test suite|unit tests?)(?![\w'])/i;

/** Words and marks of a personal or emphatic sentence, in which technical words do have a valence. */
const PERSONAL = /(?<![\w'])(?:I|I'm|I've|my|me|we|our|us|mine|always|again|ever|never)(?![\w'])|!/iu;

/** Words, in lower case, that are neutral in a change log or in a technical sentence. */
const TECHNICAL_WORDS =
  /^(?:support(?:s|ed)?|improve(?:s|d|ments?)?|fix(?:es|ed)?|crash(?:es|ed)?|bugs?|issues?|problems?|errors?|fail(?:s|ed|ures?|ing)?|missing|invalid|valid|critical|fatal|important|warning?s?|alerts?|wrong|broken|bad|dead|kill(?:s|ed)?|abort(?:s|ed)?|cancel(?:s|led|ed)?|escape|accept(?:s|ed)?|reject(?:s|ed)?|den(?:y|ies|ied)|block(?:s|ed|ing)?|conflicts?|protect(?:s|ed)?|secure|trust(?:s|ed)?|share(?:s|d)?|unique|free|clean|cleared|clear|lost|loss|drop(?:s|ped)?|stop(?:s|ped)?|attack|vulnerabilit(?:y|ies)|favou?r|must|deprecated|resolve[sd]?|limit(?:s|ed)?|no|empty|like|restrict(?:s|ed)?|allow(?:s|ed)?|effective|efficient|optimal|success(?:ful|fully)?|active|please|hidden|hide|free|loading|lock(?:s|ed)?|delay(?:s|ed)?|force[ds]?|violations?|dangling|crucial|delete[sd]?|attempts?|defects?|alone|empty|master|slave|panic|exhausted|expired?|expires|stale|corrupt(?:ed)?|leaks?|degraded|timed|unknown|unable|unexpected|easily|fast(?:er)?|slow(?:er)?|improvements?)$/;

/** True for a line of a change log and for technical prose, in which words such as `error` and `fix` are neutral. */
function isFactualForm(sentence: string): boolean {
  return RELEASE_NOTE.test(sentence) || LOG_LINE.test(sentence) || (TECHNICAL_CONTEXT.test(sentence) && !PERSONAL.test(sentence));
}
