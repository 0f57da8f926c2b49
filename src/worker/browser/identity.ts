// The key of a browser worker: an unreadable WebCrypto key if the browser has Ed25519, otherwise a stored seed.
import { fromHex, parseSignature, toBase64, toHex } from "../../receipt/bytes.ts";
import { fingerprintWords, isPublicKey, keyPair, verifyText } from "../../receipt/ed25519.ts";
import { seedSigner, type Signer } from "../session/executor.ts";
import type { KeptStore } from "./kept-store.ts";

const KEY = "key";
const ALGORITHM = "Ed25519";

/** The public side of this worker's key. */
export type WorkerIdentity = {
  /** 64 lowercase hex characters. */
  publicKey: string;
  /** The fingerprint, for people to compare. */
  words: readonly string[];
  /** `locked`: the browser keeps the key, and no script can read it. `stored`: the browser cannot do that, so the seed is in its storage. */
  custody: "locked" | "stored";
  /** False if the browser refused to store the key: it is lost when the tab is closed. */
  kept: boolean;
};

/** The key of this browser's worker: its public side, and its signer. */
export type Identity = { identity: WorkerIdentity; signer: Signer };

/** The place of the key in the database. */
export const KEY_PLACE = { store: "values", key: KEY } as const;

/** True if a stored value is the key of this public key (64 lowercase hex). */
export async function isKeyOf(stored: unknown, publicKey: string): Promise<boolean> {
  return (await identityOf(stored))?.identity.publicKey === publicKey;
}

/** Reads the key, or creates it on the first run. If it cannot be stored, it lasts as long as the tab. */
export async function openIdentity(database: Pick<KeptStore, "get" | "change">): Promise<Identity> {
  const stored = await database.get("values", KEY);
  const known = await identityOf(stored);
  if (known !== null) return known;
  for (const make of [makeLocked, makeSeed]) {
    const made = await make();
    if (made === null) continue;
    try {
      await database.change("values", [[KEY, made]]);
    } catch (error) {
      // Some browsers cannot store a CryptoKey, but can store a seed. If nothing can be stored, the tab uses the unreadable key until it is closed.
      if (make === makeLocked && error instanceof Error && error.name === "DataCloneError") continue;
      return given(await identityOf(made), false);
    }
    // Another tab may have stored a key after this one. The stored one counts.
    return given(await identityOf((await database.get("values", KEY)) ?? made), true);
  }
  throw new Error("this browser cannot make a key");
}

function given(known: Identity | null, kept: boolean): Identity {
  if (known === null) throw new Error("this browser cannot read the key that it stored");
  return { ...known, identity: { ...known.identity, kept } };
}

async function identityOf(stored: unknown): Promise<Identity | null> {
  if (stored instanceof Uint8Array && stored.length === 32) {
    const signer = seedSigner(keyPair(stored));
    return { signer, identity: describe(signer.publicKey, "stored") };
  }
  if (!isKeyPair(stored)) return null;
  const publicKey = toHex(new Uint8Array(await crypto.subtle.exportKey("raw", stored.publicKey)));
  if (!isPublicKey(publicKey)) return null;
  const sign = async (text: string) => toBase64(new Uint8Array(await crypto.subtle.sign(ALGORITHM, stored.privateKey, new TextEncoder().encode(text))));
  return { signer: { publicKey, sign }, identity: describe(publicKey, "locked") };
}

function describe(publicKey: string, custody: WorkerIdentity["custody"]): WorkerIdentity {
  return { publicKey, words: fingerprintWords(publicKey), custody, kept: true };
}

function isKeyPair(stored: unknown): stored is CryptoKeyPair {
  return typeof stored === "object" && stored !== null && "privateKey" in stored && "publicKey" in stored && stored.privateKey instanceof CryptoKey;
}

/** Creates a key that no script can read; null if WebCrypto has no Ed25519, or is missing (plain http). */
async function makeLocked(): Promise<CryptoKeyPair | null> {
  try {
    const made = await crypto.subtle.generateKey(ALGORITHM, false, ["sign", "verify"]);
    return isKeyPair(made) ? made : null;
  } catch {
    return null;
  }
}

async function makeSeed(): Promise<Uint8Array | null> {
  return crypto.getRandomValues(new Uint8Array(32));
}

/** Resolves to true if `signature` (base64) is a signature of the key (64 lowercase hex) over the UTF-8 of `text`. */
export type Verify = (text: string, signature: string, publicKey: string) => Promise<boolean>;

/**
 * Verifies with the browser's Ed25519 if it has one, which is ten times faster, and otherwise with @noble/ed25519. Use it only for this worker's own receipts,
 * because the browser does not refuse small-order keys.
 */
export const verifyOwn: Verify = async (text, signature, publicKey) => {
  const bytes = parseSignature(signature);
  const raw = fromHex(publicKey);
  if (bytes === null || raw === null) return false;
  let key: CryptoKey;
  try {
    key = await crypto.subtle.importKey("raw", new Uint8Array(raw), "Ed25519", true, ["verify"]);
  } catch {
    return verifyText(text, signature, publicKey);
  }
  return await crypto.subtle.verify("Ed25519", key, new Uint8Array(bytes), new TextEncoder().encode(text));
};
