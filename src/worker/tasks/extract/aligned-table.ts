import type { Table } from "./table.ts";

/** Cells of a line whose columns are set apart by a tab or by two spaces or more. */
export function columnsOf(line: string): string[] {
  return line
    .trim()
    .split(/\t+| {2,}/)
    .map((cell) => cell.trim())
    .filter((cell) => cell !== "");
}

/** Tables set with spaces: a header of at least three words or phrases, and at least `minRows` rows of as many cells. */
export function alignedTables(lines: readonly string[], minRows: number): Table[] {
  const tables: Table[] = [];
  for (let i = 0; i + minRows < lines.length;) {
    const header = columnsOf(lines[i] ?? "");
    const rows: string[][] = [];
    let to = i + 1;
    if (header.length >= 3 && header.every((cell) => /^\p{L}/u.test(cell) && !/[:=]/.test(cell))) {
      // A line under the header is drawn, not data.
      if (/^[\s=_─-]+$/.test(lines[to] ?? "") && (lines[to] ?? "").trim() !== "") to++;
      for (let row = columnsOf(lines[to] ?? ""); row.length === header.length; row = columnsOf(lines[to] ?? "")) {
        rows.push(row);
        to++;
      }
    }
    if (rows.length >= minRows) tables.push({ header, rows, from: i, to });
    i = rows.length >= minRows ? to : i + 1;
  }
  return tables;
}
