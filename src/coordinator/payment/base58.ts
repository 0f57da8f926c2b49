const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Bytes in base58, as Solana writes its addresses. */
export function toBase58(bytes: Uint8Array): string {
  let number = 0n;
  for (const byte of bytes) number = (number << 8n) | BigInt(byte);
  let text = "";
  for (; number > 0n; number /= 58n) text = ALPHABET.charAt(Number(number % 58n)) + text;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(zeros === -1 ? bytes.length : zeros) + text;
}

/** The 32 bytes of a Solana address; null for a text that is none. */
export function addressBytes(text: string): Uint8Array | null {
  if (text.length < 32 || text.length > 44) return null;
  let number = 0n;
  for (const char of text) {
    const digit = ALPHABET.indexOf(char);
    if (digit === -1) return null;
    number = number * 58n + BigInt(digit);
  }
  if (number >= 1n << 256n) return null;
  const bytes = new Uint8Array(32);
  for (let i = 31; number > 0n; i--, number >>= 8n) bytes[i] = Number(number & 255n);
  // A text with other leading ones would be a second name for the same bytes, or name fewer or more of them.
  return toBase58(bytes) === text ? bytes : null;
}
