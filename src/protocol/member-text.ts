/**
 * The text of a member of a JSON object, as it was written: numbers, escapes, white space, member order and repeated names stay as they are, where parsing
 * and writing anew would change them. Of two members with the name the last one counts, as `JSON.parse` has it; null without one.
 * `json` must be valid JSON text of an object.
 */
export function memberText(json: string, name: string): string | null {
  let found: string | null = null;
  let at = skipSpace(json, json.indexOf("{") + 1);
  while (json[at] === '"') {
    const nameEnd = stringEnd(json, at);
    const isIt = JSON.parse(json.slice(at, nameEnd)) === name;
    const begin = skipSpace(json, json.indexOf(":", nameEnd) + 1);
    const end = valueEnd(json, begin);
    if (isIt) found = json.slice(begin, end);
    at = skipSpace(json, end);
    if (json[at] === ",") at = skipSpace(json, at + 1);
  }
  return found;
}

function skipSpace(json: string, from: number): number {
  let at = from;
  while (at < json.length && json.charCodeAt(at) <= 0x20) at++;
  return at;
}

/** Just after the string whose opening quote is at `from`. */
function stringEnd(json: string, from: number): number {
  for (let at = from + 1; at < json.length; at++) {
    if (json[at] === "\\") at++;
    else if (json[at] === '"') return at + 1;
  }
  return json.length;
}

/** Just after the value that begins at `from`. */
function valueEnd(json: string, from: number): number {
  let depth = 0;
  for (let at = from; at < json.length; at++) {
    const char = json[at];
    if (char === '"') {
      at = stringEnd(json, at) - 1;
      if (depth === 0) return at + 1;
    } else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") {
      // The end of the object around a number or a word.
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (char === "," || json.charCodeAt(at) <= 0x20)) return at;
  }
  return json.length;
}
