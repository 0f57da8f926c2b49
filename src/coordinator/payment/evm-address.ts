import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/**
 * Whether 0x and 40 hex digits are an address that is spelled as it should be: all in one case, or with the case of each letter saying
 * what it must [EIP-55]. A wrong one has a typing mistake in it, and money sent there is gone.
 */
export function isEvmAddress(text: string): boolean {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) return false;
  const digits = text.slice(2);
  const lower = digits.toLowerCase();
  if (digits === lower || digits === digits.toUpperCase()) return true;
  const hash = bytesToHex(keccak_256(utf8ToBytes(lower)));
  return [...lower].every((digit, at) => digits[at] === (Number.parseInt(hash[at] ?? "0", 16) > 7 ? digit.toUpperCase() : digit));
}
