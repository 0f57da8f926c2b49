// Splits a sentence into the tokens that classify scores.
const GLAD = "😀😃😄😁😆😊🙂😍🥰😘🤩🥳😎🤗👍👏🎉🎊💪🙌❤💖💕💙💚💛💜🧡😂🤣😻🏆✨🔥💯😇☺🫶😋😌🤤😉😜🥇🌟🎈💗💓💞💘💝♥🤍🖤👌✌🙏😚😙😗😺😸😹🤟🤘🥂🍾";
const SAD = "😡😠🤬😢😞😔😟😩😫😖😣☹🙁👎💔🤮🤢😤😒🙄😱😰😨💩🖕😿😾😑😐😕🤦🙃😓😥😧😦😪🤒🤕🚫❌👿💢🥱";
// Tears can be tears of joy.
const RATHER_SAD = "😭";

/** A pattern for one emoji with a valence. An own list, because JavaScript engines differ in which characters they call pictographic. */
const EMOJI = `[${GLAD}${SAD}${RATHER_SAD}]`;

const SIGNS: ReadonlyMap<string, number> = new Map([
  ...Array.from(GLAD, (sign): [string, number] => [sign, 2]),
  ...Array.from(SAD, (sign): [string, number] => [sign, -2]),
  ...Array.from(RATHER_SAD, (sign): [string, number] => [sign, -1]),
]);

const GLAD_FACE = /^(?:<3|[xX]D|[:;=]['’]?-?[)D\]pP3*]|\(|\^|\\)/;
const SAD_FACE = /^(?:<\/3|>?[:;=]['’,]?-?[(|[/\\]|\)|[T;>-]_|D:)/;

/** The valence of an emoji, an emoticon or a row of stars, −2.7..2.7; 0 if it is not known. */
export function signOf(text: string): number {
  const emoji = SIGNS.get(text);
  if (emoji !== undefined) return emoji;
  if (/^[★⭐☆]/u.test(text)) {
    const all = text.match(/[★⭐☆]/gu)?.length ?? 0;
    // One star alone may be an ornament.
    return all === 1 ? 0 : ratingOf(text.match(/[★⭐]/gu)?.length ?? 0, Math.max(5, all));
  }
  return GLAD_FACE.test(text) ? 2 : SAD_FACE.test(text) ? -2 : 0;
}

/** The valence of `points` out of `most`: a little more than half of them is neutral. */
export function ratingOf(points: number, most: number): number {
  return (Math.min(1, points / most) - 0.55) * 6;
}

/** One token of a sentence: a word, a run of punctuation marks (`stop`), or an emoji or emoticon (`sign`). */
export type Token = {
  /** In lower case, with plain apostrophes. A lengthened word (`soooo`) is cut to two equal letters in a row. */
  readonly text: string;
  readonly kind: "word" | "stop" | "sign";
  /** True if the word is written in capitals or lengthened, which shows emphasis. */
  readonly isLoud: boolean;
};

// Where an emoticon can begin and end. Brackets and quotes beside it are JSON or code.
const BEFORE_FACE = String.raw`(?<![\p{L}\p{N}"'\x60\]}|\\-])`;
const AFTER_FACE = String.raw`(?![\p{L}\p{N}"'\x60[\]{}/\\|=:])`;

// The order matters: emoticons come before punctuation, and ratings before words. Every alternative starts with a different
// character or is bounded, so the match is linear.
const TOKEN = new RegExp(
  [
    String.raw`(${BEFORE_FACE}(?:>?[:;=]['’,]?-?(?:\)+|\(+|D+|[Pp]+|[3*[\]/\\|])|<\/?3+|[xX]D+)${AFTER_FACE}`,
    // These signs mean something else unless they stand alone.
    String.raw`(?<!\S)(?:\(-?[:;=]|\)-?[:;=]|\^_?\^|[T;>-]_[T;<-]|\\o\/|D:)(?!\S)`,
    String.raw`(?<=[\p{L}\p{N}])[:;]-?[()](?!\S)`,
    String.raw`(?:[★⭐☆]\ufe0f?){1,10}`,
    `${EMOJI})`,
    String.raw`\d{1,3}(?:[.,]\d)?\s?\/\s?\d{1,3}(?![\d/])`,
    String.raw`\d{1,2}(?:[.,]\d)? out of (?:5|10)(?= stars?(?!\p{L})|\s*(?:[.,;:!)]|$))`,
    String.raw`\d{1,9}[.,]\d{1,9}(?![\p{L}\p{N}])`,
    String.raw`[\p{L}\p{N}]+(?:['’ʼ-][\p{L}\p{N}]+)*`,
    String.raw`[.!?…,;:()"“”]+|[—–]`,
  ].join("|"),
  "gu",
);

/** The tokens of a sentence, in order. The time is linear in its length. */
export function tokensOf(sentence: string): Token[] {
  const tokens: Token[] = [];
  for (const [match, sign] of sentence.matchAll(TOKEN)) {
    if (sign !== undefined) tokens.push({ text: sign, kind: "sign", isLoud: false });
    else if (/^[\p{L}\p{N}]/u.test(match)) {
      const lower = match.toLowerCase().replace(/[’ʼ]/g, "'").replace("out of", "/").replace(/\s/g, "");
      const text = lower.replace(/(\p{L})\1{2,}/gu, "$1$1");
      const isCapital = match.length > 2 && /\p{Lu}{3}/u.test(match) && !/\p{Ll}/u.test(match);
      const before = tokens.at(-1);
      const joined = before === undefined ? undefined : JOINED.get(`${before.text} ${text}`);
      if (joined !== undefined) tokens[tokens.length - 1] = { text: joined, kind: "word", isLoud: before?.isLoud === true };
      // "ill call you": at its beginning a sentence seldom speaks of illness.
      else if (text === "ill" && before === undefined) tokens.push({ text: "i'll", kind: "word", isLoud: false });
      else tokens.push({ text: BARE_CONTRACTIONS.get(text) ?? text, kind: "word", isLoud: isCapital || text !== lower });
    } else tokens.push({ text: match, kind: "stop", isLoud: false });
  }
  return tokens;
}

/** Pairs of words that together are one negator, or one word of the lexicon of another language. */
const JOINED: ReadonlyMap<string, string> = new Map([
  ["can not", "can't"],
  ["could not", "couldn't"],
  ["anything but", "anything-but"],
  ["far from", "far-from"],
  ["no one", "nobody"],
  ["not once", "never"],
  ["fail to", "failed-to"],
  ["failed to", "failed-to"],
  ["fails to", "failed-to"],
  ["nowhere near", "nowhere-near"],
  ["nie wieder", "nie-wieder"],
  ["pas mal", "pas-mal"],
  ["plus jamais", "plus-jamais"],
  ["nunca más", "nunca-más"],
]);

/** Contractions without their apostrophe, and common short forms, with their usual spelling. */
const BARE_CONTRACTIONS: ReadonlyMap<string, string> = new Map(
  "can't don't won't didn't doesn't isn't wasn't aren't couldn't wouldn't shouldn't haven't hasn't hadn't ain't"
    .split(" ")
    .map((word): [string, string] => [word.replace("'", ""), word])
    .concat([
      ["cannot", "can't"],
      ["u", "you"],
      ["ur", "your"],
      ["im", "i'm"],
      ["ive", "i've"],
    ]),
);
