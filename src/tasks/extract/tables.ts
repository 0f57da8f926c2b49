// Finds tables in a text (Markdown, CSV, aligned columns), for extract_json and invoice.ts.
import { type ExtractedRecord, memberName, scalarOf, setMember } from "./record.ts";

/** A table in a text. Cells are as written; the table takes the lines from `from` up to, but not including, `to`. */
export type Table = { header: string[]; rows: string[][]; from: number; to: number };

// Further columns are dropped, because every record repeats all names.
const COLUMNS = 200;

/** The records of a table, one per row, made on demand. A repeated or empty header gets a number, and so does a cell without a header. */
export function* recordsOf(table: Table): Generator<ExtractedRecord> {
  const taken = new Set<string>();
  const names = table.header.slice(0, COLUMNS).map((label, i) => uniqueName(memberName(label) || `column_${i + 1}`, taken));
  for (const row of table.rows) {
    const record: ExtractedRecord = {};
    names.forEach((name, i) => setMember(record, name, scalarOf(row[i] ?? "")));
    for (let i = names.length; i < Math.min(row.length, COLUMNS); i++) setMember(record, uniqueName(`column_${i + 1}`, new Set(names)), scalarOf(row[i] ?? ""));
    yield record;
  }
}

function uniqueName(name: string, taken: Set<string>): string {
  let unique = name;
  for (let n = 2; taken.has(unique); n++) unique = `${name}_${n}`;
  taken.add(unique);
  return unique;
}

// A quoted cell can have line breaks. These limits keep a quote that is never closed from reading the rest of the text for every line.
const RECORD_LINES = 20;
const RECORD_LENGTH = 4096;

const DELIMITERS = ["\t", ";", ",", "|"];

/** All CSV tables in `lines`: a header and at least two rows, separated by comma, semicolon, tab or bar, with quotes as in RFC 4180. */
export function csvTables(lines: readonly string[]): Table[] {
  const tables: Table[] = [];
  const runs = DELIMITERS.map((delimiter) => csvRuns(lines, delimiter));
  for (let i = 0; i + 2 < lines.length;) {
    const table = tableAt(lines, i, runs);
    if (table === undefined) i++;
    else {
      tables.push(table);
      i = table.to;
    }
  }
  return tables;
}

/** A CSV record up to line `to`, and the run of records with as many cells that begins with it. */
type CsvRun = {
  cells: string[];
  to: number;
  next: CsvRun | undefined;
  /** The columns that have a number or an e-mail address in every record of the run. */
  numbers: readonly number[];
};

/** The run that begins at each line. It goes backwards, so each run takes what is known of its rest, and the time is linear. */
function csvRuns(lines: readonly string[], delimiter: string): (CsvRun | undefined)[] {
  const runs: (CsvRun | undefined)[] = Array.from({ length: lines.length });
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i] ?? "";
    if (!line.includes(delimiter) && !line.trimStart().startsWith('"')) continue;
    const record = csvRecord(lines, i, delimiter);
    if (record === undefined || record.cells.length < 2) continue;
    const { cells, to } = record;
    const after = runs[to];
    const next = after?.cells.length === cells.length ? after : undefined;
    const columns = next === undefined ? [...cells.keys()] : next.numbers;
    runs[i] = { cells, to, next, numbers: columns.filter((column) => isNumberOrMail(cells[column] ?? "")) };
  }
  return runs;
}

function tableAt(lines: readonly string[], from: number, runs: readonly (readonly (CsvRun | undefined)[])[]): Table | undefined {
  const line = lines[from] ?? "";
  for (const [i, delimiter] of DELIMITERS.entries()) {
    const header = runs[i]?.[from];
    if (!line.includes(delimiter) || header?.next?.next === undefined) continue;
    if (!isHeader(header.cells) || !isTabular(line, header.next, delimiter)) continue;
    const rows: string[][] = [];
    let to = header.to;
    for (let row: CsvRun | undefined = header.next; row !== undefined; row = row.next) {
      rows.push(row.cells);
      to = row.to;
    }
    return { header: header.cells, rows, from, to };
  }
  return undefined;
}

function isHeader(cells: readonly string[]): boolean {
  return (
    new Set(cells).size === cells.length &&
    cells.every((cell) => cell !== "" && cell.length <= 64 && /[\p{L}_#]/u.test(cell) && !/[.!?:{}[\]<>]$/.test(cell) && cell.split(/\s+/).length <= 5)
  );
}

/** False for prose: it has commas too, but with a space after each, and no column of numbers. */
function isTabular(header: string, rows: CsvRun, delimiter: string): boolean {
  return delimiter === "\t" || !header.includes(`${delimiter} `) || rows.numbers.length > 0;
}

function isNumberOrMail(cell: string): boolean {
  return /^[\p{Sc}+-]?[\d.,:/-]+ ?[%\p{Sc}]?$/u.test(cell) || /^\S+@\S+$/.test(cell);
}

/** The CSV record that starts at line `from`; undefined for a blank line or a quote that is not closed. */
function csvRecord(lines: readonly string[], from: number, delimiter: string): { cells: string[]; to: number } | undefined {
  if ((lines[from] ?? "").trim() === "") return undefined;
  const cells: string[] = [];
  let cell = "";
  // Kept beside the cell: a look at the whole cell for every quote would take quadratic time.
  let isBlank = true;
  let quoted = false;
  let length = 0;
  const add = (char: string): void => {
    cell += char;
    isBlank &&= char.trim() === "";
  };
  for (let to = from; to < lines.length && to - from < RECORD_LINES; to++) {
    const line = lines[to] ?? "";
    length += line.length;
    if (quoted) {
      if (length > RECORD_LENGTH) return undefined;
      add("\n");
    }
    for (let i = 0; i < line.length; i++) {
      const char = line[i] ?? "";
      if (quoted) {
        if (char !== '"') add(char);
        else if (line[i + 1] === '"') {
          add('"');
          i++;
        } else quoted = false;
      } else if (char === '"' && isBlank) {
        quoted = true;
        cell = "";
      } else if (char === delimiter) {
        cells.push(cell.trim());
        cell = "";
        isBlank = true;
      } else add(char);
    }
    if (!quoted) return { cells: [...cells, cell.trim()], to: to + 1 };
  }
  return undefined;
}

/** All Markdown tables in `lines`: a header row, a row of dashes, and all following lines with a bar. */
export function markdownTables(lines: readonly string[]): Table[] {
  const tables: Table[] = [];
  for (let i = 1; i < lines.length; i++) {
    if (!isRule(lines[i] ?? "")) continue;
    const header = cellsOf(lines[i - 1] ?? "");
    if (!(lines[i - 1] ?? "").includes("|") || header.every((cell) => cell === "") || header.length !== cellsOf(lines[i] ?? "").length) continue;
    const from = i - 1;
    const rows: string[][] = [];
    for (i++; i < lines.length && (lines[i] ?? "").includes("|") && !isRule(lines[i + 1] ?? ""); i++) rows.push(cellsOf(lines[i] ?? ""));
    tables.push({ header, rows, from, to: i });
  }
  return tables;
}

function isRule(line: string): boolean {
  return line.includes("-") && line.includes("|") && cellsOf(line).every((cell) => /^:?-+:?$/.test(cell));
}

function cellsOf(line: string): string[] {
  let inside = line.trim();
  if (inside.startsWith("|")) inside = inside.slice(1);
  if (inside.endsWith("|") && !inside.endsWith("\\|")) inside = inside.slice(0, -1);
  const cells: string[] = [];
  let cell = "";
  for (let i = 0; i < inside.length; i++) {
    const char = inside[i] ?? "";
    if (char === "\\" && inside[i + 1] === "|") {
      cell += "|";
      i++;
    } else if (char === "|") {
      cells.push(cell.trim());
      cell = "";
    } else cell += char;
  }
  return [...cells, cell.trim()];
}

/** The cells of a line whose columns are separated by tabs or by at least two spaces. */
export function columnsOf(line: string): string[] {
  return line
    .trim()
    .split(/\t+| {2,}/)
    .map((cell) => cell.trim())
    .filter((cell) => cell !== "");
}

/** All tables with aligned columns: a header of at least three cells, and at least `minRows` rows with the same number of cells. */
export function alignedTables(lines: readonly string[], minRows: number): Table[] {
  const tables: Table[] = [];
  for (let i = 0; i + minRows < lines.length;) {
    const header = columnsOf(lines[i] ?? "");
    const rows: string[][] = [];
    let to = i + 1;
    if (header.length >= 3 && header.every((cell) => /^\p{L}/u.test(cell) && !/[:=]/.test(cell))) {
      // A line of dashes under the header is not data.
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
