// The names that an address is counted under: the client itself, the network and the block that it belongs to, and the owner of a share. On a job's way: before
// commit.

const IPV4 = /^(\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?$/;
const LONGEST = 64;

/**
 * The name that an address is counted under: an IPv4 address itself, and of an IPv6 address its /64, because one client usually has a whole /64 [LM2].
 * A port, brackets and a zone are left out. Text that is not an address stays as it is, cut at 64 characters.
 */
export function networkOf(address: string): string {
  const text = address.trim();
  const v4 = IPV4.exec(text)?.[1];
  if (v4 !== undefined) return v4;
  const bare = (/^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? text).replace(/%.*$/, "");
  return v6Network(bare) ?? text.slice(0, LONGEST);
}

/**
 * The network that a client of {@link networkOf} belongs to: an IPv4 address itself, and of an IPv6 /64 its /48. A household or a rented server has a /64, and
 * a customer of a provider often has a whole /48 [JB11].
 */
export function wideNetworkOf(client: string): string {
  return client.replace(/^([^:]*:[^:]*:[^:]*):[^:]*::\/64$/, "$1::/48");
}

/** The block of addresses that a client of {@link networkOf} belongs to: of an IPv4 address the /24, of an IPv6 /64 its /48 [TR3]. */
export function blockOf(client: string): string {
  return IPV4.test(client) ? client.replace(/[^.]*$/, "0/24") : wideNetworkOf(client);
}

/** The name of all clients whose address the coordinator does not know: it runs in an emulation, and the operator has named no header for it. */
export const UNKNOWN_CLIENT = "local";

/** Whose share a client uses [LM1]: its network's; null if its address is not known, or if clients are not limited. */
export function shareOwner(client: string, rateLimits: boolean): string | null {
  return !rateLimits || client === "" || client === UNKNOWN_CLIENT ? null : wideNetworkOf(client);
}

/** The first four of the eight groups, without leading zeros; of a mapped IPv4 address that address (RFC 4291, 2.5.5.2); null if it is not an IPv6 address. */
function v6Network(text: string): string | null {
  const halves = text.toLowerCase().split("::");
  if (halves.length > 2 || !text.includes(":")) return null;
  const [head = [], tail = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const groups =
    halves.length === 2
      ? [...head, ...Array.from({ length: Math.max(0, (tail.at(-1)?.includes(".") === true ? 7 : 8) - head.length - tail.length) }, () => "0"), ...tail]
      : head;
  const written = groups.every((group, at) => /^[0-9a-f]{1,4}$/.test(group) || (at === groups.length - 1 && IPV4.test(group)));
  // An IPv4 address in the last place stands for two groups.
  if (!written || (groups.length !== 8 && !groups.at(-1)?.includes("."))) return null;
  if (/^(0+,){5}ffff,/.test(String(groups))) return dotted(groups.slice(6));
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}

/** The last groups of a mapped address as an IPv4 address: one that is written so already, or two groups of hex digits. */
function dotted([high = "", low]: readonly string[]): string {
  if (low === undefined) return high;
  const bytes = [high, low].map((group) => Number.parseInt(group, 16));
  return bytes.flatMap((pair) => [pair >> 8, pair & 0xff]).join(".");
}
