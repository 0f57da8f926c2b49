// What `pair create` shows: the code, its link and its QR code, laid out so that they fit the terminal and need no scrolling.
import { stripVTControlCharacters } from "node:util";
import { encode } from "uqr";
import type { PairingOffer } from "../sdk/index.ts";
import { isLocalAddress } from "../sdk/trust.ts";
import { ownCommand } from "../worker/node/command-name.ts";
import { untrusted } from "../worker/node/status-line.ts";

const INDENT = "  ";
const ONLY_HERE = "(for this machine only; a phone needs --url with an address it can reach)";

/** The screen on which the code is shown. Without color it is plain text, also for pipes and screen readers. */
export type Screen = { color: boolean; columns: number; rows: number };

/** The shown parts of an offer. `place` is the option that names its coordinator, ` --url …`, or empty for the default one. */
type ShownOffer = Pick<PairingOffer, "code" | "expiresAt" | "workerUrl"> & { place: string };

/** The lines about a code that do not change during the wait. The code and its times are escaped, because the coordinator wrote them. */
export function offerLines(offer: ShownOffer, screen: Screen): string[] {
  const code = untrusted(offer.code);
  const workerUrl = untrusted(offer.workerUrl);
  const ways = [
    `on the worker's machine: ${ownCommand(`worker pair ${code}${untrusted(offer.place)}`)}`,
    `phone or browser:        ${workerUrl}`,
    ...(isLocalAddress(offer.workerUrl) ? [ONLY_HERE] : []),
  ];
  if (!screen.color) return [code, `valid until ${offer.expiresAt.toISOString()}`, ...ways];
  const spaced = [[...code].join(" ")];
  const big = fitting(bigText(code), screen.columns) ?? spaced;
  const picture = fitting(qrLines(offer.workerUrl), screen.columns);
  const text = indented(ways);
  // From the largest to the smallest: large letters and QR code, small letters and QR code, only letters.
  const layouts = [
    ["", ...indented(big), "", ...(picture === undefined ? [] : [...indented(picture), ""]), ...text, ""],
    ...(picture === undefined ? [] : [[...indented(spaced), ...indented(picture), ...text]]),
    ["", ...indented(big), "", ...text, ""],
  ];
  const rowsOf = (lines: readonly string[]) => lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(width(line) / screen.columns)), 0);
  // One more line shows the countdown.
  return layouts.find((lines) => rowsOf(lines) + 1 <= screen.rows) ?? layouts.at(-1) ?? text;
}

/** The lines if the terminal does not break them; otherwise undefined. */
function fitting(lines: readonly string[], columns: number): readonly string[] | undefined {
  return lines.every((line) => width(line) + INDENT.length <= columns) ? lines : undefined;
}

/** The columns of a line. Escape sequences take none. */
function width(line: string): number {
  return stripVTControlCharacters(line).length;
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line === "" ? "" : `${INDENT}${line}`));
}

// Each character has four columns and five rows. With three columns, B and 8 or D and 0 would look the same.
const GLYPHS: Record<string, string> = {
  "0": ".##. #..# #..# #..# .##.",
  "1": "..#. .##. ..#. ..#. .###",
  "2": "###. ...# .##. #... ####",
  "3": "###. ...# .##. ...# ###.",
  "4": "#..# #..# #### ...# ...#",
  "5": "#### #... ###. ...# ###.",
  "6": ".### #... ###. #..# .##.",
  "7": "#### ...# ..#. .#.. .#..",
  "8": ".##. #..# .##. #..# .##.",
  "9": ".##. #..# .### ...# ###.",
  A: ".##. #..# #### #..# #..#",
  B: "###. #..# ###. #..# ###.",
  C: ".### #... #... #... .###",
  D: "###. #..# #..# #..# ###.",
  E: "#### #... ###. #... ####",
  F: "#### #... ###. #... #...",
};

const ROWS = 5;

/** A pairing code in letters of five lines. Each dot has two columns, because a cell of a terminal is twice as high as it is wide. */
export function bigText(code: string): string[] {
  return Array.from({ length: ROWS }, (_, row) =>
    [...code]
      .map((character) => (GLYPHS[character]?.split(" ")[row] ?? "").replaceAll("#", "██").replaceAll(".", "  "))
      .join("   ")
      .trimEnd(),
  );
}

/** Black on white, independent of the terminal's colors, because many readers cannot read an inverted code. */
const INK = "\u001B[38;5;16;48;5;231m";
const PLAIN = "\u001B[0m";
/** Light modules around the code. The standard requires four, but readers accept two, and lines are scarce. */
const BORDER = 2;

/** A QR code as lines for a terminal with colors. Each character shows two modules, one above the other. */
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
