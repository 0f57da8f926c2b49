/**
 * Text of others as a terminal may have it: control characters, but for line ends and tabs, are written out as `\u001b`.
 * A terminal obeys them: they move the cursor, rewrite what stands there, change its title, fill the clipboard.
 */
export function printable(text: string): string {
  return text.replaceAll(/\r\n|\p{Cc}/gu, (found) => (found === "\r\n" || found === "\n" || found === "\t" ? found : escaped(found)));
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
