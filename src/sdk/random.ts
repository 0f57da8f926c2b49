import { toHex } from "../receipt/bytes.ts";

/** 128 random bits as 32 hex characters. */
export function random128(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}
