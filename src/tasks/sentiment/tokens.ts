// Splits a text into the tokens that classify scores.
const GLAD = "😀😃😄😁😆😊🙂😍🥰😘🤩🥳😎🤗👍👏🎉🎊💪🙌❤💖💕💙💚💛💜🧡😂🤣😻🏆✨🔥💯😇☺🫶😋😌🤤😉😜🥇🌟⭐🎈💗💓💞💘♥🤍🖤👌✌🙏";
const SAD = "😡😠🤬😢😞😔😟😩😫😖😣☹🙁👎💔🤮🤢😤😒🙄😱😰😨💩🖕😿😾😑😐😕🤦🙃😓😥😧😦😪🤒🤕🚫❌";

/** Pattern of one emoji with a valence. Their own list, as engines differ in what they call pictographic. */
const EMOJI = `[${GLAD}${SAD}]`;

const SIGNS: ReadonlyMap<string, number> = new Map([
  ...Array.from(GLAD, (sign): [string, number] => [sign, 2]),
  ...Array.from(SAD, (sign): [string, number] => [sign, -2]),
]);

/** Valence of an emoji or emoticon, −2..2; 0 where it is not known. */
export function signOf(text: string): number {
  const emoji = SIGNS.get(text);
  if (emoji !== undefined) return emoji;
  if (/^<3|^[xX]D|^[:;=]['’]?-?[)D\]pP3]/.test(text)) return 2;
  if (/^<\/3|^[:=]['’]?-?[(|[/\\]/.test(text)) return -2;
  return 0;
}

/** A word, a run of stops, an emoji or an emoticon of a sentence. */
export type Token = {
  /** Lower case, plain apostrophes; a word drawn out (`soooo`) has at most two equal letters in a row. */
  readonly text: string;
  readonly kind: "word" | "stop" | "sign";
  /** Spelled in capitals, or drawn out: said with force. */
  readonly isLoud: boolean;
};

// Order matters: emoticons before stops, ratings before words. Every alternative starts differently or is bounded.
const TOKEN = new RegExp(
  [
    String.raw`(?<![\p{L}\p{N}])(?:[:;=]['’]?-?[)(DPp/\\|[\]3*oO]+(?![\p{L}\p{N}])|<\/?3+|[xX]D+(?![\p{L}\p{N}]))|\d{1,3}\s?\/\s?\d{1,3}(?![\d/])|[\p{L}\p{N}]+(?:['’ʼ-][\p{L}\p{N}]+)*`,
    EMOJI,
    String.raw`[.!?…,;:()"“”]+|[—–]`,
  ].join("|"),
  "gu",
);

/** The tokens of a sentence, in order. Linear in its length. */
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

/** Two words that negate as one. */
const JOINED: ReadonlyMap<string, string> = new Map([
  ["can not", "can't"],
  ["could not", "couldn't"],
  ["anything but", "anything-but"],
  ["far from", "far-from"],
  ["nowhere near", "nowhere-near"],
]);

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
