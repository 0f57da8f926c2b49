// Splits a text into units (sentences, list items, headings) for summarize.
import { sentencesOf } from "./words.ts";

/** A piece of text that can be one sentence of a summary. */
export type Unit = {
  text: string;
  /**
   * A heading only names its section. A frame is a mail header, a greeting or a closing. Both are used only if the text has
   * nothing else. A turn is one line of a chat.
   */
  kind: "sentence" | "item" | "turn" | "heading" | "frame";
};

// A shorter line ends its paragraph, unless the next line starts in lower case: wrapped prose has longer lines.
const WRAPPED_LINE = 45;
// The lines after "Kind regards," are at most this long. A longer line ends the closing.
const SENDER_LINE = 41;

/** Splits `text` into units, in order. Every unit has a letter or digit. The time is linear in the length of the text. */
export function unitsOf(text: string): Unit[] {
  const units: Unit[] = [];
  let paragraph = "";
  let previous = "";
  const flush = () => {
    for (const sentence of sentencesOf(paragraph)) units.push({ text: sentence, kind: "sentence" });
    paragraph = "";
  };
  let fenced = false;
  let isClosing = false;
  const lines = text.split(/\r\n|[\n\r\u2028\u2029]/);
  const speakers = speakersIn(lines);
  for (const raw of lines) {
    const line = raw.trim();
    if (line.length > SENDER_LINE) isClosing = false;
    if (line.startsWith("```") || line.startsWith("~~~")) {
      fenced = !fenced;
      flush();
      continue;
    }
    if (fenced) continue;
    const heading = /^#{1,6} +/.exec(line);
    const item = /^(?:[-*+•‣▪◦·–]|\d{1,3}[.)]|[a-z][.)]) +(?:\[[ xX]\] +)?/.exec(line);
    const speaker = SPEAKER.exec(line)?.[1];
    const subject = /^(?:subject|betreff|objet|asunto) ?: *(?:(?:re|fwd?|aw) ?: *)*/i.exec(line);
    const above = units.at(-1);
    if (speaker !== undefined && speakers.has(speaker)) {
      flush();
      units.push({ text: line, kind: "turn" });
    } else if (subject) {
      flush();
      units.push({ text: line.slice(subject[0].length), kind: "heading" });
    } else if (isFrame(line, paragraph === "") || (isClosing && /^\p{L}[^.!?]{0,40}$/u.test(line))) {
      // The lines after "Kind regards," are the name and the position of the sender.
      isClosing ||= CLOSING.test(line);
      flush();
      units.push({ text: line, kind: "frame" });
    } else if (line === "" || /^[-=_*#]{3,}$/.test(line)) flush();
    else if (heading) {
      flush();
      units.push({ text: line.slice(heading[0].length), kind: "heading" });
    } else if (item) {
      flush();
      units.push({ text: line.slice(item[0].length), kind: "item" });
    } else if (/^\s/.test(raw) && paragraph === "" && previous !== "" && above?.kind === "item") {
      above.text += ` ${line}`;
    } else {
      const wrapped = previous.length >= WRAPPED_LINE || /^\p{Ll}/u.test(line);
      if (paragraph !== "" && !wrapped) flush();
      paragraph += paragraph === "" ? line : ` ${line}`;
    }
    previous = line;
  }
  flush();
  // A text that is one fenced block has no prose. Its lines are better than an empty summary.
  if (units.length === 0) for (const line of text.split("\n")) units.push({ text: line.trim(), kind: "item" });
  return units.map(tidy).filter((unit) => /[\p{L}\p{N}]/u.test(unit.text));
}

const SPEAKER = /^(?:\[?\d{1,2}:\d{2}(?::\d{2})?\]? *)?<?([\p{L}][\p{L}\p{N} ._'-]{0,24}?)>? ?: \S/u;

/** The names of the speakers if the text is a chat. A form also has `Name: text` lines, but each label only once. */
function speakersIn(lines: readonly string[]): ReadonlySet<string> {
  const turns = new Map<string, number>();
  let filled = 0;
  for (const line of lines) {
    if (line.trim() !== "") filled++;
    const name = SPEAKER.exec(line.trim())?.[1];
    if (name !== undefined) turns.set(name, (turns.get(name) ?? 0) + 1);
  }
  const all = [...turns.values()].reduce((sum, count) => sum + count, 0);
  const isChat = turns.size >= 2 && all >= 4 && all * 2 > filled && [...turns.values()].some((count) => count >= 2) && turns.size * 1.5 <= all;
  return new Set(isChat ? turns.keys() : []);
}

const MAIL_HEADER = /^(?:from|to|cc|bcc|date|sent|reply-to|von|an|gesendet|datum|de|à|para|fecha|attending|present|apologies|anwesend) ?: /i;
const GREETING =
  /^(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|liebe[rs]?|sehr geehrte[rs]?|guten tag|moin|bonjour|salut|cher|chère|hola|estimad[oa]s?|buenos días)(?: [\p{L}.'&-]+){0,4} ?[,!.]?$/iu;
const CLOSING =
  /^(?:(?:many |best |kind |warm |with (?:kind|best) )?(?:thanks|regards|wishes|cheers|greetings)(?: again| in advance)?|thank you(?: very much)?|yours (?:sincerely|faithfully|truly)|sincerely|best|take care|have a (?:nice|great|good) \w+|viele grüße|mit freundlichen grüßen|liebe grüße|beste grüße|cordialement|bien à vous|merci|saludos|atentamente|un saludo|gracias)(?: [\p{L}]+)? ?[,.!]*$/iu;

/** True if a line is a mail header, a greeting or a closing. `startsParagraph` is true if it is the first line of a paragraph. */
function isFrame(line: string, startsParagraph: boolean): boolean {
  return (
    startsParagraph && line.length < 120 && (MAIL_HEADER.test(line) || (line.length < 60 && (GREETING.test(line) || CLOSING.test(line) || /^-- ?$/.test(line))))
  );
}

function tidy(unit: Unit): Unit {
  return {
    ...unit,
    text: unit.text
      .replace(/\s+/g, " ")
      .replace(/\*\*|`/g, "")
      .trim(),
  };
}
