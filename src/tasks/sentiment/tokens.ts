// Splits a sentence into the tokens that classify scores.
const GLAD = "😀😃😄😁😆😊🙂😍🥰😘🤩🥳😎🤗👍👏🎉🎊💪🙌❤💖💕💙💚💛💜🧡😂🤣😻🏆✨🔥💯😇☺🫶😋😌🤤😉😜🥇🌟⭐🎈💗💓💞💘♥🤍🖤👌✌🙏";
const SAD = "😡😠🤬😢😞😔😟😩😫😖😣☹🙁👎💔🤮🤢😤😒🙄😱😰😨💩🖕😿😾😑😐😕🤦🙃😓😥😧😦😪🤒🤕🚫❌";

/** A pattern for one emoji with a valence. An own list, because JavaScript engines differ in which characters they call pictographic. */
const EMOJI = `[${GLAD}${SAD}]`;

const SIGNS: ReadonlyMap<string, number> = new Map([
  ...Array.from(GLAD, (sign): [string, number] => [sign, 2]),
  ...Array.from(SAD, (sign): [string, number] => [sign, -2]),
]);

/** The valence of an emoji or emoticon, −2..2; 0 if it is not known. */
export function signOf(text: string): number {
  const emoji = SIGNS.get(text);
  if (emoji !== undefined) return emoji;
  if (/^<3|^[xX]D|^[:;=]['’]?-?[)D\]pP3]/.test(text)) return 2;
  if (/^<\/3|^[:=]['’]?-?[(|[/\\]/.test(text)) return -2;
  return 0;
}

/** One token of a sentence: a word, a run of punctuation marks (`stop`), or an emoji or emoticon (`sign`). */
export type Token = {
  /** In lower case, with plain apostrophes. A lengthened word (`soooo`) is cut to two equal letters in a row. */
  readonly text: string;
  readonly kind: "word" | "stop" | "sign";
  /** True if the word is written in capitals or lengthened, which shows emphasis. */
  readonly isLoud: boolean;
};

// The order matters: emoticons come before punctuation, and ratings before words. Every alternative starts with a different
// character or is bounded, so the match is linear.
const TOKEN = new RegExp(
  [
    String.raw`(?<![\p{L}\p{N}])(?:[:;=]['’]?-?[)(DPp/\\|[\]3*oO]+(?![\p{L}\p{N}])|<\/?3+|[xX]D+(?![\p{L}\p{N}]))|\d{1,3}\s?\/\s?\d{1,3}(?![\d/])|[\p{L}\p{N}]+(?:['’ʼ-][\p{L}\p{N}]+)*`,
    EMOJI,
    String.raw`[.!?…,;:()"“”]+|[—–]`,
  ].join("|"),
  "gu",
);

/** The tokens of a sentence, in order. The time is linear in its length. */
export function tokensOf(sentence: string): Token[] {
  const tokens: Token[] = [];
  for (const [match] of sentence.matchAll(TOKEN)) {
    if (/^[\p{L}\p{N}]/u.test(match) && !/^[xX]D+$/.test(match)) {
      const lower = match.toLowerCase().replace(/[’ʼ]/g, "'").replace(/\s/g, "");
      const text = lower.replace(/(\p{L})\1{2,}/gu, "$1$1");
      const isCapital = match.length > 2 && /\p{Lu}{3}/u.test(match) && !/\p{Ll}/u.test(match);
      const before = tokens.at(-1);
      const joined = before === undefined ? undefined : JOINED.get(`${before.text} ${text}`);
      if (joined !== undefined) tokens[tokens.length - 1] = { text: joined, kind: "word", isLoud: before?.isLoud === true };
      else tokens.push({ text: BARE_CONTRACTIONS.get(text) ?? text, kind: "word", isLoud: isCapital || text !== lower });
    } else tokens.push({ text: match, kind: /^[.!?…,;:()"“”—–]+$/.test(match) ? "stop" : "sign", isLoud: false });
  }
  return tokens;
}

/** Pairs of words that together are one negator. */
const JOINED: ReadonlyMap<string, string> = new Map([
  ["can not", "can't"],
  ["could not", "couldn't"],
  ["anything but", "anything-but"],
  ["far from", "far-from"],
  ["nowhere near", "nowhere-near"],
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
