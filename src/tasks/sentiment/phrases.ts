// Finds phrases in a sentence for classify. The neutral phrases are here; praise and blame have a file each.
import { BLAME } from "./blame-phrases.ts";
import { type PhraseList, PRAISE } from "./praise-phrases.ts";
import type { Token } from "./tokens.ts";

/** Neutral phrases with words that have a valence elsewhere: closings of letters, business terms, names of things. */
const NEUTRAL: PhraseList = [
  [
    0,
    `to cool
    for the love of
    more or less
    questions|comments|suggestions|feedback|contributions ?is|are ?always|very welcome
    never|don't|doesn't|didn't|won't|can't|cannot failed-to
    nothing short of
    nothing better to do
    not|isn't|aren't|wasn't|weren't|doesn't|don't|can't include|included
    i|we|he|she|they don't|doesn't|didn't|not work|open on|at|in|for|until|here
    public|bank|school holiday|holidays
    be worn
    be used without
    ^why not
    plenty of
    works|worked as|at|from|under|with
    ^no parking|smoking|entry|dogs|pets|swimming|access|refunds|admittance
    spam|junk folder|filter|mail
    why don't|can't we|i
    not|isn't|wasn't|aren't far-from
    up to date|speed
    please ?just wait
    ^wait for|until|till
    ^wait ~ hour|hours|minutes|days|weeks|seconds ?after|before|between|until
    to avoid this|it|these|them
    ^never open|close|turn|use|touch|reply|install|start|charge|show|answer
    please ?do don't reply|respond|answer|open|close|turn|use|touch|install|start|charge|show
    accept|accepts|accepted cash|card|cards|payment|payments|cheques|coins
    doesn't|don't|won't|didn't need|matter|contain|apply|affect|mean|depend|belong|require|exist|rain|snow
    ^don't ?ever clean|open|close|turn|use|touch|reply|respond|answer|install|start|charge|show|work|run
    don't|didn't|won't|wouldn't|never hesitate ?to
    cover|covers|covered|covering ~ damage|damages|theft|loss|losses|accidents
    no reply|response|action|answer|help ?is needed|required|necessary|expected
    change|changed|changes|modified|amended ~ without ?prior|further notice
    doesn't|won't|don't|didn't|not|isn't|aren't|wasn't|weren't start|open|close|arrive|begin until|till|before|on|at
    not|never|won't ?be charged|billed|charge ~ again|extra|twice
    i|we|i'll|we'll ?will|would|won't ?not ?be be|come|go|going|coming back on|at|by|in|from|after|until|till|before|next|tomorrow|later
    will|would|won't|i'll|we'll ?not ?be be|come|go|going|coming back on|at|by|from|after|until|till|before|next|tomorrow|later
    under no circumstances
    will|would|i'll|we'll|i'd ?be come|get|go|coming|getting|going back to you|me|him|her|them|work|school|home|sleep
    i|we will|would|can ?be come|get|go|coming|getting|going back to you|me|him|her|them|work|school|home|sleep
    not|isn't up to me|you|us|them
    run|runs|works|running out of the box
    stay|stand|keep|steer ?well|far away|clear from|of ?the|any|all|open doors|door|edge|fire|heat|flames|water|windows|cables|track|tracks|platform|area|children|gap|entrance
    how ?do|can|to ?i|we|you ?to cancel|delete|close|return
    like|want|wish to cancel
    ^have a ?very good|great|nice|lovely|wonderful|pleasant day|weekend|evening|trip|time|night|holiday|week
    can't|couldn't believe ?that|how|what|the|this|they|it|we|i|my|you
    not gonna|going ?to lie
    copy of
    would|i'd|we'd|should ?also|all like|love|be|appreciate ?to|it|a
    look*|feel*|felt|taste*|smell*|sound*|seem*|works|just|something|things|more|nothing|anything like ?a|an|the|it
    like a|an|the|this|that|my|our|so|when|if|in|to ?lot
    best|kind|warm|warmest|kindest regards|wishes
    yours sincerely|faithfully|truly
    dear sir|madam|all|mr|mrs|ms|dr|team|customer|colleagues|friends
    in advance
    free plan|tier|trial|account|from|to|software|market|kick|agent|speech
    free of
    support team|ticket|page|staff|desk|group
    interest rate|rates
    central|savings|investment bank
    credit card|cards|note|notes
    value added
    good|fair afternoon|morning|evening|night|luck|friday|share|game
    happy birthday|new|mothers|mother's|fathers|father's|valentine's|christmas
    as well ?as
    well known|as
    kind of
    kinds of
    right now|away|here|side|hand|after|before
    pretty much
    fine arts|art|print|dust|mist|line|tuning
    play|plays a|the|at|in|on|with
    fire department|brigade|alarm|station|truck|extinguisher|exit
    war memorial|museum|office|film|movie|ii|ministry|time|veteran|veterans
    world war
    civil war
    critical section|path|mass|value|temperature
    error code|codes|message|messages|rate|log|handling|handler|page|bar|bars|margin
    bug report|reports|fix|fixes|tracker
    fixed|fixes|fix ~ bug|bugs|issue|issues|crash|error|typo|problem
    issue number|date|tracker
    lost and found
    hard drive|disk|copy|cover|hat|coded
    hot water|chocolate|dog|dogs
    cold water|war|start
    dead sea|line|end|heat
    black friday
    supreme court
    sanctions committee
    heart attack|rate|failure|disease
    strong wind|winds
    smart phone|phones|home|tv|watch|meter
    just in case
    had better
    better half
    most of
    gap|gaps between
    good for ?nothing
    free time`,
  ],
];

/** All phrases. */
export const PHRASES: PhraseList = [...NEUTRAL, ...PRAISE, ...BLAME];

/** A phrase that was found. `end` is the index of the token after it. */
type PhraseMatch = { readonly valence: number; readonly end: number };

/** One word of a phrase; {@link PhraseList} explains the notation. */
type Slot = { readonly words: ReadonlySet<string>; readonly beginnings: readonly string[]; readonly isOptional: boolean; readonly isGap: boolean };
type Phrase = { readonly valence: number; readonly slots: readonly Slot[]; readonly isOpening: boolean };

// `~` matches up to this many words.
const GAP = 4;

function slotOf(source: string): Slot {
  const isOptional = source.startsWith("?");
  const choices = (isOptional ? source.slice(1) : source).split("|");
  return {
    words: new Set(choices.filter((choice) => !choice.endsWith("*"))),
    beginnings: choices.filter((choice) => choice.endsWith("*")).map((choice) => choice.slice(0, -1)),
    isOptional,
    isGap: source === "~",
  };
}

const BY_FIRST = new Map<string, Phrase[]>();
const BY_BEGINNING: { beginning: string; phrase: Phrase }[] = [];
for (const [valence, list] of PHRASES) {
  for (const line of list.split("\n")) {
    const source = line.trim();
    const isOpening = source.startsWith("^");
    const slots = source
      .slice(isOpening ? 1 : 0)
      .split(/\s+/)
      .map(slotOf);
    const phrase = { valence, slots, isOpening };
    for (const word of slots[0]?.words ?? []) {
      const others = BY_FIRST.get(word);
      if (others === undefined) BY_FIRST.set(word, [phrase]);
      else others.push(phrase);
    }
    for (const beginning of slots[0]?.beginnings ?? []) BY_BEGINNING.push({ beginning, phrase });
  }
}

/** The longest phrase that starts at token `at`; of equally long ones the first in the list. Undefined if there is none. Constant time. */
export function phraseAt(tokens: readonly Token[], at: number): PhraseMatch | undefined {
  const first = tokens[at];
  if (first?.kind !== "word") return undefined;
  let best: PhraseMatch | undefined;
  const consider = ({ valence, slots, isOpening }: Phrase, from: number) => {
    if (isOpening && !beginsClause(tokens, at)) return;
    const end = matchFrom(tokens, from, slots, 1);
    if (end !== undefined && end > (best?.end ?? 0)) best = { valence, end };
  };
  for (const phrase of BY_FIRST.get(first.text) ?? []) consider(phrase, at + 1);
  for (const { beginning, phrase } of BY_BEGINNING) if (first.text.startsWith(beginning)) consider(phrase, at + 1);
  for (const phrase of BY_FIRST.get(contractionAt(tokens, at) ?? "") ?? []) consider(phrase, at + 2);
  return best;
}

const CONJUNCTIONS: ReadonlySet<string> = new Set(["and", "but", "so"]);

/** True if no subject stands before the word at `at`: it is the first of its sentence, or follows a punctuation mark or a conjunction. */
function beginsClause(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1];
  return before?.kind !== "word" || CONJUNCTIONS.has(before.text);
}

// "does" and "not" match "doesn't" of a phrase.
const CONTRACTIONS: ReadonlyMap<string, string> = new Map(
  "do does did is are was were would should has have had"
    .split(" ")
    .map((verb): [string, string] => [verb, `${verb}n't`])
    .concat([["will", "won't"]]),
);

/** The contraction of the two tokens at `at`, if the second is "not". */
function contractionAt(tokens: readonly Token[], at: number): string | undefined {
  return tokens[at + 1]?.text === "not" ? CONTRACTIONS.get(tokens[at]?.text ?? "") : undefined;
}

function matchFrom(tokens: readonly Token[], at: number, slots: readonly Slot[], index: number): number | undefined {
  const slot = slots[index];
  if (slot === undefined) return at;
  const token = tokens[at];
  const isWord = token?.kind === "word";
  if (slot.isGap) {
    for (let skipped = 0; skipped <= GAP; skipped++) {
      const end = matchFrom(tokens, at + skipped, slots, index + 1);
      if (end !== undefined) return end;
      if (tokens[at + skipped]?.kind !== "word") return undefined;
    }
    return undefined;
  }
  const fits = isWord && (slot.words.has(token.text) || slot.beginnings.some((beginning) => token.text.startsWith(beginning)));
  if (fits) {
    const end = matchFrom(tokens, at + 1, slots, index + 1);
    if (end !== undefined) return end;
  }
  const contraction = contractionAt(tokens, at);
  if (contraction !== undefined && slot.words.has(contraction)) {
    const end = matchFrom(tokens, at + 2, slots, index + 1);
    if (end !== undefined) return end;
  }
  return slot.isOptional ? matchFrom(tokens, at, slots, index + 1) : undefined;
}
