/** UTF-8 of a text; a lone surrogate becomes the three bytes that a careless encoder would write. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const parts = [...text].map((char) => {
    const code = char.codePointAt(0) ?? 0;
    const isLone = code >= 0xd800 && code <= 0xdfff;
    return isLone ? Buffer.from([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)]) : Buffer.from(char, "utf8");
  });
  return Buffer.concat(parts);
}

/** Base64 of bytes. */
export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
