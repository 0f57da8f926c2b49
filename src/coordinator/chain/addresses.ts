// Addresses of the two chains: parsing, checksums, derived token accounts. Step "pay" of a job: payment terms and payments contain addresses.
import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { Point } from "@noble/ed25519";
import { sha256 } from "@noble/hashes/sha2.js";
import { base58 } from "@scure/base";

/** The 32 bytes of a Solana address; null if `text` is not an address. Each 32 bytes have exactly one text. */
export function addressBytes(text: string): Uint8Array | null {
  // 32 bytes have 32 to 44 base58 characters. The check comes first because the time to decode grows with the square of the length.
  if (text.length < 32 || text.length > 44) return null;
  try {
    const bytes = base58.decode(text);
    return bytes.length === 32 ? bytes : null;
  } catch {
    return null;
  }
}

/**
 * True if `text` is 0x and 40 hex digits with a valid checksum: all letters in one case, or mixed case as EIP-55 defines it.
 * A wrong checksum means a typing mistake, and money sent to a wrong address is lost.
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

/** A cache of derived accounts: to derive one takes milliseconds, and an instance needs only one payee and one mint. */
const derived = new Map<string, string | null>();

/** The associated token account of an owner for a mint and token program, to which `exact` pays. Null if an argument is not an address. */
export function associatedTokenAccount(owner: string, tokenProgram: string, mint: string): string | null {
  const key = `${owner} ${tokenProgram} ${mint}`;
  let account = derived.get(key);
  if (account === undefined) derived.set(key, (account = deriveAccount(owner, tokenProgram, mint)));
  return account;
}

function deriveAccount(owner: string, tokenProgram: string, mint: string): string | null {
  const addresses = [owner, tokenProgram, mint].map(addressBytes);
  const program = addressBytes(ASSOCIATED_TOKEN_PROGRAM);
  const seeds = addresses.filter((bytes) => bytes !== null);
  if (seeds.length !== addresses.length || program === null) return null;
  // The first hash, from bump 255 down, that is not a point of the curve: such an account has no secret key.
  for (let bump = 255; bump >= 0; bump--) {
    const hash = sha256(concatBytes(...seeds, Uint8Array.of(bump), program, MARKER));
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
