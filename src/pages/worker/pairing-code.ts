// Reads a pairing code out of what a person typed, pasted or scanned.

/** The code in a text: at most six hex digits in upper case. It is the parameter `code` of a link, otherwise the only whole word that can be a code. */
export function readCode(text: string): string {
  const linked = /[?&#]code=([^&#\s]+)/i.exec(text)?.[1];
  if (linked !== undefined) return hexDigits(linked);
  // Without this rule the letters of the words around a code would be part of it: `pairing code` has a, c, d and e.
  const [word, ...others] = new Set(text.toUpperCase().match(/\b[0-9A-F]{6}\b/g));
  return word !== undefined && others.length === 0 ? word : hexDigits(text);
}

/** The field of the code after an edit. */
type Edit = {
  code: string;
  /** Where the caret stands in the code. */
  caret: number;
  /** True if a character was dropped that is neither a space nor a hyphen. */
  droppedOther: boolean;
};

/** The code in an edited text with a caret. The caret stays behind the same digit, because a person may correct a digit in the middle. */
export function editCode(text: string, caret: number): Edit {
  const code = readCode(text);
  // The code was found in a link or a sentence.
  if (code !== hexDigits(text)) return { code, caret: code.length, droppedOther: false };
  return { code, caret: hexDigits(text.slice(0, caret)).length, droppedOther: /[^0-9A-F\s\p{Dash_Punctuation}]/iu.test(text) };
}

function hexDigits(text: string): string {
  return text
    .toUpperCase()
    .replaceAll(/[^0-9A-F]/g, "")
    .slice(0, 6);
}
