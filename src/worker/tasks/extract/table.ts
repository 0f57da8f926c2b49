import { memberName, scalarOf, setMember } from "./record.ts";
import type { ExtractedRecord } from "./record.ts";

/** A table in a text: its header, its rows of raw cells, and the lines from `from` up to but not including `to`. */
export type Table = { header: string[]; rows: string[][]; from: number; to: number };

// Columns past this are dropped; every record repeats all names.
const COLUMNS = 200;

/** The records of a table, one a row, made as they are asked for. Equal or empty headers get a number; spare cells too. */
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
