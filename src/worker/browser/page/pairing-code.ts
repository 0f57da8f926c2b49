/** What was typed, pasted or scanned, read as a code as far as it goes: upper case, hex digits only, at most six. A whole link gives its `code`. */
export function readCode(text: string): string {
  const linked = /[?&#]code=([^&#\s]+)/i.exec(text)?.[1];
  return (linked ?? text)
    .toUpperCase()
    .replaceAll(/[^0-9A-F]/g, "")
    .slice(0, 6);
}

/** Whether it is a whole code. */
export function isCode(code: string): boolean {
  return /^[0-9A-F]{6}$/.test(code);
}
