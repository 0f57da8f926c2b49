import { fromHex, parseSignature, toBase64, toHex } from "../../receipt/bytes.ts";
import { fingerprintWords, isPublicKey, keyPair, verifyText } from "../../receipt/ed25519.ts";
import { seedSigner, type Signer } from "../session/seal.ts";
import type { KeptStore } from "./kept-store.ts";

const KEY = "key";
const ALGORITHM = "Ed25519";

/** Who this worker is. */
export type WorkerIdentity = {
  /** 64 lowercase hex characters. */
  publicKey: string;
  /** What to compare by eye. */
  words: readonly string[];
  /** `locked`: the browser keeps the key and gives it to nobody. `stored`: this browser cannot, so the seed lies in its storage. */
  custody: "locked" | "stored";
  /** False when the browser refused to store anything: the key is gone with the tab. */
  kept: boolean;
};

/** The key of this browser's worker: who it is, and what signs for it. */
export type Identity = { identity: WorkerIdentity; signer: Signer };

/** Where the key is among the stored values. */
export const KEY_PLACE = { store: "values", key: KEY } as const;

/** Whether a stored value is the key of this public key (64 lowercase hex). */
export async function isKeyOf(stored: unknown, publicKey: string): Promise<boolean> {
  return (await identityOf(stored))?.identity.publicKey === publicKey;
}

/** Reads the key, or makes it on the first run. Without a database the key lasts as long as the tab. */
export async function openIdentity(database: Pick<KeptStore, "get" | "change"> | null): Promise<Identity> {
  const stored = await database?.get("values", KEY);
  const known = await identityOf(stored);
  if (known !== null) return known;
  for (const make of [makeLocked, makeSeed]) {
    const made = await make();
    if (made === null) continue;
    try {
      await database?.change("values", [[KEY, made]]);
    } catch (error) {
      // There are browsers that store no CryptoKey; a seed may still do. One that stores nothing at all signs with the better key while the tab lives.
      if (make === makeLocked && error instanceof Error && error.name === "DataCloneError") continue;
      return given(await identityOf(made), false);
    }
    // Two tabs may have made one each: the one that is stored counts.
    return given(await identityOf((await database?.get("values", KEY)) ?? made), database !== null);
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

/** A key that no script can read out; null where WebCrypto has no Ed25519, or where there is no WebCrypto (plain http). */
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

/** Whether `signature` (base64) is the key's (64 lowercase hex) over the UTF-8 of `text`. */
export type Verify = (text: string, signature: string, publicKey: string) => Promise<boolean>;

/**
 * By the browser where it can, ten times faster, else by our own code. Good for this worker's own receipts only: the browser does not refuse
 * small-order keys.
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
