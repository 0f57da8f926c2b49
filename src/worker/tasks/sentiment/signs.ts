const GLAD = "😀😃😄😁😆😊🙂😍🥰😘🤩🥳😎🤗👍👏🎉🎊💪🙌❤💖💕💙💚💛💜🧡😂🤣😻🏆✨🔥💯😇☺🫶😋😌🤤😉😜🥇🌟⭐🎈💗💓💞💘♥🤍🖤👌✌🙏";
const SAD = "😡😠🤬😢😞😔😟😩😫😖😣☹🙁👎💔🤮🤢😤😒🙄😱😰😨💩🖕😿😾😑😐😕🤦🙃😓😥😧😦😪🤒🤕🚫❌";

/** Pattern of one emoji with a valence. Their own list, as engines differ in what they call pictographic. */
export const EMOJI = `[${GLAD}${SAD}]`;

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
