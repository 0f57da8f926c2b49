import { type KeyPair, signText } from "../../receipt/ed25519.ts";

/** A worker's key, which may be one that cannot be read out (WebCrypto in a browser). */
export type Signer = {
  /** 64 lowercase hex characters. */
  readonly publicKey: string;
  /** Base64 ed25519 signature over the UTF-8 of `text`. */
  sign(text: string): string | Promise<string>;
};

/** A signer that holds its seed in memory. */
export function seedSigner(key: KeyPair): Signer {
  return { publicKey: key.publicKey, sign: (text) => signText(text, key.secret) };
}
