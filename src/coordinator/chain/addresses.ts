import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { Point } from "@noble/ed25519";
import { sha256 } from "@noble/hashes/sha2.js";

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
    if (!isOnCurve(hash)) return toBase58(hash);
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
