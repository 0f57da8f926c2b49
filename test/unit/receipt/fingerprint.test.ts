import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { fingerprintOf, fingerprintWords } from "../../../src/receipt/ed25519.ts";

/** Fixed for good: a fingerprint that somebody wrote down must stay the same. */
const VECTORS: [publicKey: string, words: string][] = [
  ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "keno riba vilu dima vilu diba jemi fabo"],
  ["3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "muka zoti nafu fero lilu bosa kuka kosa"],
  ["0000000000000000000000000000000000000000000000000000000000000000", "moti nafu vuka funa dosa vabo keno hiba"],
];

describe("fingerprint in words", () => {
  test.each(VECTORS)("%s", (publicKey, words) => {
    expect(fingerprintWords(publicKey).join(" ")).toBe(words);
    expect(fingerprintOf(publicKey)).toBe(words);
    expect(fingerprintWords(publicKey.toUpperCase()).join(" ")).toBe(words);
  });

  test.each(["", "abc", `${"0".repeat(64)}\n`, "g".repeat(64), "0".repeat(63)])("%j is no key, so it has no words", (text) => {
    expect(() => fingerprintOf(text)).toThrow(TypeError);
  });

  test("is what docs/receipts.md says, by another implementation of SHA-256", () => {
    const [[publicKey]] = VECTORS as [[string, string]];
    const bytes = [...createHash("sha256").update(`compute-router/fingerprint/v1\n${publicKey}`).digest().subarray(0, 8)];
    const onset = "bdfghjklmnprstvz";
    const ending = "abo adi afu ako ela emi eno ero iba ido ilu ima osa oti uka una".split(" ");
    expect(fingerprintWords(publicKey)).toEqual(bytes.map((byte) => `${onset[Math.floor(byte / 16)]}${ending[byte % 16]}`));
  });

  test("uses 256 different words of four letters", () => {
    const seen = new Set<string>();
    for (let i = 0; i < 2_000; i++) for (const word of fingerprintWords(String(i))) seen.add(word);
    expect(seen.size).toBe(256);
    for (const word of seen) expect(word).toMatch(/^[bdfghjklmnprstvz][aeiou][bdfklmnrst][aeiou]$/);
  });
});
