// Breaks lines at words for a terminal: those of a help, of a worker, and of `npm start`.
import { stripVTControlCharacters } from "node:util";

/** In fewer columns a text is easier to read as the terminal breaks it. */
const LEAST_WIDTH = 24;

/** A command to copy ends a sentence or a part of it. A line end within it would be copied too, and a shell would run its first half. */
const COMMAND = /(?<=\b(?:run|check): )[^,;—]*[^,;—\s]/g;

/** Stands for the blanks of a command while its line is broken. No line has it: text of strangers is escaped before. */
const HELD = "\0";

/** The columns of the terminal; infinite without one. */
export function terminalColumns({ isTTY, columns }: { readonly isTTY?: boolean; readonly columns?: number } = process.stdout): number {
  return isTTY === true && columns !== undefined && columns > 0 ? columns : Infinity;
}

/**
 * A line in the width of a terminal: the text from `at` on goes on below itself. Commands stay whole. Blanks at the end are removed.
 * @param at where the text begins; default: for a line of a help after an option or a command and four blanks
 */
export function fitted(line: string, columns: number, at: number = startOf(line)): string[] {
  const text = line.trimEnd();
  if (widthOf(text) <= columns) return [text];
  const indent = widthOf(text.slice(0, at));
  if (columns - indent < LEAST_WIDTH) return [text];
  const lines = [text.slice(0, at)];
  const words = text
    .slice(at)
    .replaceAll(COMMAND, (command) => command.replaceAll(" ", HELD))
    .split(" ");
  for (const word of words) {
    const last = lines.at(-1) ?? "";
    const isFirst = widthOf(last) === indent;
    if (isFirst || widthOf(last) + 1 + widthOf(word) <= columns) lines[lines.length - 1] = `${last}${isFirst ? "" : " "}${word}`;
    else lines.push(`${" ".repeat(indent)}${word}`);
  }
  return lines.map((part) => part.replaceAll(HELD, " ").trimEnd());
}

/** Where the text of a line of a help begins. Lines without an option or a command begin at the left. */
function startOf(line: string): number {
  return line.startsWith(" ") ? line.search(/\S {4}(?=\S)/) + 5 : 0;
}

/** The columns of a text, without its colors. */
function widthOf(text: string): number {
  return stripVTControlCharacters(text.replaceAll(HELD, " ")).length;
}
