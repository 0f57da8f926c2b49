import type { Table } from "./table.ts";

// A quoted cell may hold line breaks, but an open quote must not make every line read the rest of the text.
const RECORD_LINES = 20;
const RECORD_LENGTH = 4096;

/** All CSV tables (comma, semicolon, tab or bar; RFC 4180 quotes) of a text given as lines: a header and at least two rows. */
export function csvTables(lines: readonly string[]): Table[] {
  const tables: Table[] = [];
  for (let i = 0; i + 2 < lines.length;) {
    const table = tableAt(lines, i);
    if (table === undefined) i++;
    else {
      tables.push(table);
      i = table.to;
    }
  }
  return tables;
}

function tableAt(lines: readonly string[], from: number): Table | undefined {
  const line = lines[from] ?? "";
  for (const delimiter of ["\t", ";", ",", "|"]) {
    if (!line.includes(delimiter)) continue;
    const header = csvRecord(lines, from, delimiter);
    if (header === undefined || !isHeader(header.cells)) continue;
    const rows: string[][] = [];
    let to = header.to;
    for (
      let record = csvRecord(lines, to, delimiter);
      record !== undefined && record.cells.length === header.cells.length;
      record = csvRecord(lines, to, delimiter)
    ) {
      rows.push(record.cells);
      to = record.to;
    }
    if (rows.length >= 2 && isTabular(line, rows, delimiter)) return { header: header.cells, rows, from, to };
  }
  return undefined;
}

function isHeader(cells: readonly string[]): boolean {
  return (
    cells.length >= 2 &&
    new Set(cells).size === cells.length &&
    cells.every((cell) => cell !== "" && cell.length <= 64 && /[\p{L}_#]/u.test(cell) && !/[.!?:{}[\]<>]$/.test(cell) && cell.split(/\s+/).length <= 5)
  );
}

/** Verse and prose have commas too, but with spaces behind them and no column of numbers. */
function isTabular(header: string, rows: readonly string[][], delimiter: string): boolean {
  if (delimiter === "\t" || !header.includes(`${delimiter} `)) return true;
  const width = rows[0]?.length ?? 0;
  for (let column = 0; column < width; column++) {
    if (rows.every((row) => /^[\p{Sc}+-]?[\d.,:/-]+ ?[%\p{Sc}]?$/u.test(row[column] ?? "") || /^\S+@\S+$/.test(row[column] ?? ""))) return true;
  }
  return false;
}

/** The record that begins at line `from`, or undefined for a blank line or a quote that stays open. */
function csvRecord(lines: readonly string[], from: number, delimiter: string): { cells: string[]; to: number } | undefined {
  if (from >= lines.length || (lines[from] ?? "").trim() === "") return undefined;
  const cells: string[] = [];
  let cell = "";
  let quoted = false;
  let length = 0;
  for (let to = from; to < lines.length && to - from < RECORD_LINES; to++) {
    const line = lines[to] ?? "";
    length += line.length;
    if (quoted) {
      if (length > RECORD_LENGTH) return undefined;
      cell += "\n";
    }
    for (let i = 0; i < line.length; i++) {
      const char = line[i] ?? "";
      if (quoted) {
        if (char !== '"') cell += char;
        else if (line[i + 1] === '"') {
          cell += '"';
          i++;
        } else quoted = false;
      } else if (char === '"' && cell.trim() === "") {
        quoted = true;
        cell = "";
      } else if (char === delimiter) {
        cells.push(cell.trim());
        cell = "";
      } else cell += char;
    }
    if (!quoted) return { cells: [...cells, cell.trim()], to: to + 1 };
  }
  return undefined;
}
