import { Point } from "@noble/ed25519";
import { sha256 } from "@noble/hashes/sha2.js";
import { concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { addressBytes, toBase58 } from "./base58.ts";

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
