/** Decimals of USDC, the token of both instances; a token with more would only make the check stricter. */
const TOKEN_DECIMALS = 6;

/** Reads `$0.010`, `0.01` or a number of US dollars as millionths of a dollar; null for anything else. */
export function parsePrice(price: unknown): bigint | null {
  const text = typeof price === "number" ? price.toFixed(TOKEN_DECIMALS) : price;
  if (typeof text !== "string") return null;
  const match = /^\$?(\d{1,12})(?:\.(\d{1,6}))?$/.exec(text);
  return match === null ? null : BigInt(`${match[1]}${(match[2] ?? "").padEnd(TOKEN_DECIMALS, "0")}`);
}

/** Whether `price` can be read and is at most `max` US dollars. */
export function isWithin(price: unknown, max: number): boolean {
  const asked = parsePrice(price);
  const limit = parsePrice(max);
  return asked !== null && limit !== null && asked <= limit;
}

/** Whether an amount in atomic units of the token can be read and is at most `max` US dollars. */
export function isAmountWithin(amount: unknown, max: number): boolean {
  const limit = parsePrice(max);
  return typeof amount === "string" && /^\d{1,78}$/.test(amount) && limit !== null && BigInt(amount) <= limit;
}
