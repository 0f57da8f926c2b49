/** What a terminal obeys, or what changes how the text around it is read: controls, bidirectional marks, line and paragraph separators. */
const COMMANDS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/**
 * Text of others as one piece of a line. Characters that command a terminal are written out as `\u001b`: they would move the cursor, rewrite
 * what stands there, change the title, fill the clipboard, or show the text in another order. Line ends too: they would forge a line of ours.
 */
export function untrusted(text: string): string {
  return text.replaceAll(COMMANDS, escaped);
}

/** Text of others as a block of its own: as {@link untrusted}, but line ends and tabs stay. JSON stays the same JSON. */
export function printable(text: string): string {
  return text.replaceAll(/\r\n|[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, (found) =>
    found === "\r\n" || found === "\n" || found === "\t" ? found : escaped(found),
  );
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
