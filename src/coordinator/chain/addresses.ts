// Addresses of the two chains: parsing, checksums, derived token accounts. Pay step: terms and payments name them.
import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { Point } from "@noble/ed25519";
import { sha256 } from "@noble/hashes/sha2.js";
import { base58 } from "@scure/base";

/** The 32 bytes of a Solana address; null for a text that is none. A text and its bytes are one to one: no second text names the same bytes. */
export function addressBytes(text: string): Uint8Array | null {
  // No other length can be 32 bytes, and the time to decode a text grows with the square of its length.
  if (text.length < 32 || text.length > 44) return null;
  try {
    const bytes = base58.decode(text);
    return bytes.length === 32 ? bytes : null;
  } catch {
    return null;
  }
}

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

const ASSOCIATED_TOKEN_PROGRAM = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL";
const MARKER = utf8ToBytes("ProgramDerivedAddress");

/** Accounts found so far: an instance has one payee and one mint, and finding one takes milliseconds. */
const found = new Map<string, string | null>();

/** The associated token account of an owner for a mint under a token program: where `exact` pays to. Null for addresses that are none. */
export function associatedTokenAccount(owner: string, tokenProgram: string, mint: string): string | null {
  const name = `${owner} ${tokenProgram} ${mint}`;
  let account = found.get(name);
  if (account === undefined) found.set(name, (account = find(owner, tokenProgram, mint)));
  return account;
}

function find(owner: string, tokenProgram: string, mint: string): string | null {
  const seeds = [owner, tokenProgram, mint].map(addressBytes);
  const program = addressBytes(ASSOCIATED_TOKEN_PROGRAM);
  const known = seeds.filter((seed) => seed !== null);
  if (known.length !== seeds.length || program === null) return null;
  // The first one from 255 down that is no point of the curve, so that nobody can have its secret key.
  for (let bump = 255; bump >= 0; bump--) {
    const hash = sha256(concatBytes(...known, Uint8Array.of(bump), program, MARKER));
    if (!isOnCurve(hash)) return base58.encode(hash);
  }
  return null;
}

function isOnCurve(bytes: Uint8Array): boolean {
  try {
    Point.fromBytes(bytes, true);
    return true;
  } catch {
    return false;
  }
}
