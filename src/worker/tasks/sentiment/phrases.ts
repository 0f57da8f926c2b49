import { BLAME } from "./blame-phrases.ts";
import { PRAISE } from "./praise-phrases.ts";

/**
 * Groups of words whose feeling is not the sum of their words, with their valence. Slots are words; `a|b` is either, `a*`
 * a word that begins so, `?a` may be absent, `~` stands for up to four words of any kind. The longest match counts.
 */
export type PhraseList = readonly (readonly [valence: number, lines: string])[];

/** Phrases whose words would mislead: closings, terms of business, names of things. */
const NEUTRAL: PhraseList = [
  [
    0,
    `to cool
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
export const PHRASES: PhraseList = [...PRAISE, ...BLAME, ...NEUTRAL];
