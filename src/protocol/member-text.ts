/** A member of an object in its text. */
type MemberPlace = {
  name: string;
  /** Of the name's opening quote. */
  start: number;
  valueStart: number;
  /** Just after the value. */
  end: number;
};

/**
 * The text of a member of a JSON object, as it was written: numbers, escapes, white space, member order and repeated names stay as they are, where parsing
 * and writing anew would change them. Of two members with the name the last one counts, as `JSON.parse` has it; null without one.
 * `json` must be valid JSON text of an object.
 */
export function memberText(json: string, name: string): string | null {
  const last = membersOf(json).findLast((member) => member.name === name);
  return last === undefined ? null : json.slice(last.valueStart, last.end);
}

/**
 * The object with this member first and once; the texts of all other members stay as they were written. A second member of the name would mean
 * one thing to readers who take the last and another to those who take the first. `json` must be valid JSON text of an object.
 */
export function withFirstMember(json: string, name: string, value: string): string {
  const first = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  const members = membersOf(json);
  const others = members.filter((member) => member.name !== name);
  // The usual case: nothing to take out, so even the white space stays.
  if (others.length === members.length && members.length > 0) return `{${first},${json.slice(json.indexOf("{") + 1)}`;
  return `{${[first, ...others.map(({ start, end }) => json.slice(start, end))].join(",")}}`;
}

function membersOf(json: string): MemberPlace[] {
  const members: MemberPlace[] = [];
  let at = skipSpace(json, json.indexOf("{") + 1);
  while (json[at] === '"') {
    const start = at;
    const nameEnd = stringEnd(json, start);
    const valueStart = skipSpace(json, json.indexOf(":", nameEnd) + 1);
    const end = valueEnd(json, valueStart);
    members.push({ name: JSON.parse(json.slice(start, nameEnd)), start, valueStart, end });
    at = skipSpace(json, end);
    if (json[at] === ",") at = skipSpace(json, at + 1);
  }
  return members;
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
