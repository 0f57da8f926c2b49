// Bytes as text: hex, base64 and signatures. The same code in every runtime, so that a receipt reads the same everywhere.
const HEX = /^(?:[0-9a-f]{2})*$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Bytes as lowercase hex. */
export function toHex(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += byte.toString(16).padStart(2, "0");
  return hex;
}

/** Decodes lowercase hex; null for anything else. */
export function fromHex(hex: string): Uint8Array | null {
  if (!HEX.test(hex)) return null;
  return Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));
}

/** The value of each digit, by its character code. */
const DIGITS = Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, ALPHABET.indexOf(String.fromCharCode(code))));

/** Bytes as base64 with padding (RFC 4648 §4). */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const b = bytes[i + 1];
    const c = bytes[i + 2];
    const group = ((bytes[i] ?? 0) << 16) | ((b ?? 0) << 8) | (c ?? 0);
    text += ALPHABET.charAt(group >> 18) + ALPHABET.charAt((group >> 12) & 63);
    text += b === undefined ? "=" : ALPHABET.charAt((group >> 6) & 63);
    text += c === undefined ? "=" : ALPHABET.charAt(group & 63);
  }
  return text;
}

/** Decodes base64, with or without padding; null for anything else, also if bits follow the last byte. */
export function fromBase64(text: string): Uint8Array | null {
  if (!BASE64.test(text)) return null;
  const digits = text.replace(/=+$/, "");
  const bytes = new Uint8Array(Math.floor((digits.length * 6) / 8));
  let buffer = 0;
  let bits = 0;
  let length = 0;
  for (let i = 0; i < digits.length; i++) {
    buffer = ((buffer << 6) | (DIGITS[digits.charCodeAt(i)] ?? 0)) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[length++] = (buffer >> bits) & 0xff;
    }
  }
  // If two texts decoded to the same bytes, one receipt could have two signatures.
  return (buffer & ((1 << bits) - 1)) === 0 ? bytes : null;
}

/** Bytes of an ed25519 signature. */
const SIGNATURE_BYTES = 64;

/** Decodes a 64-byte signature from base64 or hex [RC1]; null for anything else. A longer text is refused without decoding it. */
export function parseSignature(text: string): Uint8Array | null {
  if (text.length > 2 * SIGNATURE_BYTES) return null;
  const bytes = text.length === 2 * SIGNATURE_BYTES ? fromHex(text.toLowerCase()) : fromBase64(text);
  return bytes?.length === SIGNATURE_BYTES ? bytes : null;
}
