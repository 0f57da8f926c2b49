import type { Unit } from "./units.ts";

// Words that mark what was decided, found, caused or is due; beginnings of words, in English, German, French and Spanish.
const CUES =
  /(?<!\p{L})(?:decid|announc|agree[ds]?\b|adopt|approv|found\b|finding|conclud|conclusion|show[sn]?\b|reveal|caus|because|due to|result|therefore|so that|will\b|must\b|need|require|recommend|should|suggest|advis|plan(?:s|ned)?\b|propos|deadline|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|before\b|until\b|instead|replac|increas|decreas|rose\b|fell\b|cut\b|reduc|doubl|cost|million|billion|percent|expect|warn|never\b|cannot|only if|at least|more than|first|last\b|best\b|most\b|main\b|important|problem|fail|fix|error|no longer|from now on|beschlo|stimm|kosten|kostet|deshalb|weil|grund|wegen|soll|wird|werden|müssen|muss|millionen|prozent|geschlossen|bis\b|ouvrir|annonc|décid|coût|million|gratuit|depuis|après|pendant|attend|sera\b|seront|deb|costar|costará|millones|empezar|tendrá|porque|será|presentó|prometió|decidi)/giu;

// What lies behind is cut from the summary anyway.
const HEAD = 400;

const QUESTION = /[?？؟]["'”’»)]*$/;
const QUOTED = /^["“„«'‘]/;
const DANGLING =
  /^(?:he|she|it|they|this|that|these|those|such|here|there|his|her|their|its|nobody|nothing|er|sie|es|das|dies|diese|dort|dabei|il|elle|ils|elles|cela|c'est|ce|eso|esto|ella|ellos)(?![\p{L}])/iu;
const PERSONAL = /(?<![\p{L}'])(?:i|my|me|i'm|i've)(?![\p{L}])/iu;
const CONNECTIVE =
  /^(?:however|but|and|so|therefore|moreover|furthermore|besides|also|in addition|then|of course|in fact|indeed|still|yet|nevertheless|meanwhile|by the way|on another note|likewise|similarly|aber|doch|jedoch|außerdem|deshalb|mais|cependant|pero|sin embargo|además)(?![\p{L}'-])/iu;

const FILLER =
  /^(?:thanks?\b|thank you|hope\b|i hope|have a|sorry|congratulations|welcome|by the way|on another note|first of all|many thanks|danke|vielen dank|merci|gracias|übrigens|meet\b|of course)/iu;

const FULL_TERMS = 9;

/** How much of its centrality a unit keeps: what a reader of the summary would miss weighs more, what dangles or fills weighs less. */
export function salienceOf({ text, kind }: Unit, terms: number, position: number, count: number): number {
  const head = text.slice(0, HEAD);
  // Three quarters of the shortness: a sentence of two words is nearly worthless, one of six is not.
  const length = Math.min(1, terms / FULL_TERMS);
  let weight = Math.sqrt(length) * Math.sqrt(Math.sqrt(length));
  if (QUESTION.test(text.slice(-4))) weight *= 0.8;
  if (QUOTED.test(head)) weight *= 0.95;
  if (FILLER.test(head)) weight *= 0.5;
  if (DANGLING.test(head)) weight *= 0.85;
  if (CONNECTIVE.test(head)) weight *= 0.7;
  if (kind !== "turn" && PERSONAL.test(head)) weight *= 0.8;
  weight *= 1 + 0.15 * Math.min(3, head.match(CUES)?.length ?? 0);
  weight *= 1 + 0.13 * Math.min(2, head.match(/\d[\d.,:]*/g)?.length ?? 0);
  if (position === 0 && count > 3) return weight * 0.9;
  return position === 1 && count > 6 ? weight * 1.1 : weight;
}
