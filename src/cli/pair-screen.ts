// What `pair create` shows of a code, laid out for the size of the terminal: a code that scrolled away cannot be scanned.
import { stripVTControlCharacters } from "node:util";
import type { PairingOffer } from "../sdk/index.ts";
import { isLocalAddress } from "../sdk/local-address.ts";
import { ownCommand } from "../worker/node/command-name.ts";
import { untrusted } from "../worker/node/printable.ts";
import { bigText } from "./big-text.ts";
import { qrLines } from "./terminal-qr.ts";

const INDENT = "  ";
const ONLY_HERE = "(for this machine only; a phone needs --url with an address it can reach)";

/** Where the code is shown. Without color it is plain text, for pipes and screen readers too. */
export type Screen = { color: boolean; columns: number; rows: number };

/** All about a code that does not change while it is waited for. The code and its times are the coordinator's words. */
export function offerLines(offer: Pick<PairingOffer, "code" | "expiresAt" | "workerUrl">, screen: Screen): string[] {
  const code = untrusted(offer.code);
  const workerUrl = untrusted(offer.workerUrl);
  const ways = [
    `on the worker's machine: ${ownCommand(`worker pair ${code}`)}`,
    `phone or browser:        ${workerUrl}`,
    ...(isLocalAddress(offer.workerUrl) ? [ONLY_HERE] : []),
  ];
  if (!screen.color) return [code, `valid until ${offer.expiresAt.toISOString()}`, ...ways];
  const spaced = [[...code].join(" ")];
  const big = fitting(bigText(code), screen.columns) ?? spaced;
  const picture = fitting(qrLines(offer.workerUrl), screen.columns);
  const text = indented(ways);
  // From the best to the smallest: large letters and the QR code, small letters and the QR code, only letters.
  const layouts = [
    ["", ...indented(big), "", ...(picture === undefined ? [] : [...indented(picture), ""]), ...text, ""],
    ...(picture === undefined ? [] : [[...indented(spaced), ...indented(picture), ...text]]),
    ["", ...indented(big), "", ...text, ""],
  ];
  const rowsOf = (lines: readonly string[]) => lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(width(line) / screen.columns)), 0);
  // One line more counts down, and the command itself stands above.
  return layouts.find((lines) => rowsOf(lines) + 1 <= screen.rows) ?? layouts.at(-1) ?? text;
}

/** Lines that the terminal does not break. */
function fitting(lines: readonly string[], columns: number): readonly string[] | undefined {
  return lines.every((line) => width(line) + INDENT.length <= columns) ? lines : undefined;
}

/** Escape sequences take no room. */
function width(line: string): number {
  return stripVTControlCharacters(line).length;
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line === "" ? "" : `${INDENT}${line}`));
}
