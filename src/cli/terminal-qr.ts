import { encode } from "uqr";

/** Black on white whatever the colors of the terminal are: many readers do not know the inverse. */
const INK = "\u001B[38;5;16;48;5;231m";
const PLAIN = "\u001B[0m";
/** Light modules around it: the standard wants four, readers do with two, and lines are scarce. */
const BORDER = 2;

/** A QR code as lines of a terminal with colors: two modules a character, one above the other. */
export function qrLines(text: string): string[] {
  const { data, size } = encode(text, { ecc: "M", border: BORDER });
  const isDark = (x: number, y: number) => data[y]?.[x] === true;
  return Array.from({ length: Math.ceil(size / 2) }, (_, line) => {
    const cells = Array.from({ length: size }, (_cell, x) => halves(isDark(x, 2 * line), isDark(x, 2 * line + 1)));
    return `${INK}${cells.join("")}${PLAIN}`;
  });
}

function halves(upper: boolean, lower: boolean): string {
  if (upper) return lower ? "█" : "▀";
  return lower ? "▄" : " ";
}
