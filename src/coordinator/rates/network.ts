const IPV4 = /^(\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?$/;
const MAPPED = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i;
const LONGEST = 64;

/**
 * What an address is counted under: an IPv4 address itself, of an IPv6 one its /64, since whoever has one address there has them all [LM2].
 * A port, brackets and a zone are left out. What is no address is a name like any other, cut at 64 characters.
 */
export function networkOf(address: string): string {
  const text = address.trim();
  const v4 = IPV4.exec(text)?.[1];
  if (v4 !== undefined) return v4;
  const bare = (/^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? text).replace(/%.*$/, "");
  const mapped = MAPPED.exec(bare)?.[1];
  if (mapped !== undefined) return mapped;
  return v6Network(bare) ?? text.slice(0, LONGEST);
}

/** The first four of the eight groups, without leading zeros; null when it is no IPv6 address. */
function v6Network(text: string): string | null {
  const halves = text.toLowerCase().split("::");
  if (halves.length > 2 || !text.includes(":")) return null;
  const [head = [], tail = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const groups = halves.length === 2 ? [...head, ...Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => "0"), ...tail] : head;
  const written = groups.every((group, at) => /^[0-9a-f]{1,4}$/.test(group) || (at === groups.length - 1 && IPV4.test(group)));
  // An IPv4 address in the last place stands for two groups.
  if (!written || (groups.length !== 8 && !groups.at(-1)?.includes("."))) return null;
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}
