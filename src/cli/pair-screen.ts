import { stripVTControlCharacters } from "node:util";
import type { PairingOffer } from "../sdk/index.ts";
import { isLocalAddress } from "../sdk/local-address.ts";
import { bigText } from "./big-text.ts";
import { qrLines } from "./terminal-qr.ts";

const INDENT = "  ";
const ONLY_HERE = "(only on this machine; for a phone say --url with an address that it can reach)";

/** Where the code is shown. Without color it is plain text, for pipes and screen readers too. */
export type Screen = { color: boolean; columns: number };

/** All about a code that does not change while it is waited for. */
export function offerLines({ code, expiresAt, workerUrl }: Pick<PairingOffer, "code" | "expiresAt" | "workerUrl">, screen: Screen): string[] {
  const ways = [
    `on the worker's machine: compute-router worker pair ${code}`,
    `phone or browser:        ${workerUrl}`,
    ...(isLocalAddress(workerUrl) ? [ONLY_HERE] : []),
  ];
  if (!screen.color) return [code, `valid until ${expiresAt.toISOString()}`, ...ways];
  const big = fitting(bigText(code), screen.columns) ?? [[...code].join(" ")];
  const picture = fitting(qrLines(workerUrl), screen.columns);
  return ["", ...indented(big), "", ...(picture === undefined ? [] : [...indented(picture), ""]), ...indented(ways), ""];
}

/** Lines that the terminal does not break; escape sequences take no room. */
function fitting(lines: readonly string[], columns: number): readonly string[] | undefined {
  return lines.every((line) => stripVTControlCharacters(line).length + INDENT.length <= columns) ? lines : undefined;
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line === "" ? "" : `${INDENT}${line}`));
}
