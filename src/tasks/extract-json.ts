// The task extract_json: calls its readers (JSON, invoice, tables, labels, entities) in a fixed order.
import { invoiceOf } from "./extract/invoice.ts";
import { extractJson, unquoted } from "./extract/json-islands.ts";
import { pairRecords } from "./extract/key-value.ts";
import { type ExtractedRecord, Records, setMember } from "./extract/record.ts";
import { alignedTables, csvTables, markdownTables, recordsOf, type Table } from "./extract/tables.ts";
import { entitiesOf } from "./extract/values.ts";

/** The output of `extract_json`. `count` is the length of `extracted`. */
export type Extraction = { extracted: ExtractedRecord[]; count: number };

/**
 * The structured records in `input`. The readers are tried in this order, and the first that finds a record gives the
 * output: JSON (whole, fenced, in prose); an invoice; tables and `Label: value` records in the order of the text; entities
 * as `{ type, value }`. If all records came from labels, as in a mail, the entities of the other lines are added.
 * `OUTPUT_BOUNDS` limits the output.
 */
export function extractJsonTask(input: string): Extraction {
  const records = new Records();
  const text = unquoted(input) ?? input;
  if (!extractJson(text, records)) extractText(text, records);
  return { extracted: records.list, count: records.list.length };
}

/** A copy of `extraction` in which `restore` was applied to every name and every string value. */
export function restoredExtraction(extraction: Extraction, restore: (text: string) => string): Extraction {
  return { extracted: extraction.extracted.map((record) => restoredRecord(record, restore)), count: extraction.count };
}

function restoredRecord(record: object, restore: (text: string) => string): ExtractedRecord {
  const copy: ExtractedRecord = {};
  for (const [name, value] of Object.entries(record)) setMember(copy, restore(name), restored(value, restore));
  return copy;
}

function restored(value: unknown, restore: (text: string) => string): unknown {
  if (typeof value === "string") return restore(value);
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? value.map((item) => restored(item, restore)) : restoredRecord(value, restore);
}

/** In any text, a header with one row below it is no table yet. */
const alignedTablesOf = (lines: readonly string[]): Table[] => alignedTables(lines, 2);

function extractText(text: string, records: Records): void {
  const invoice = invoiceOf(text);
  if (invoice !== undefined) return records.add(invoice);

  const lines = text.split(/\r\n|[\n\r\u2028\u2029]/);
  const found: { line: number; records: Iterable<ExtractedRecord> }[] = [];
  // Each reader blanks the lines that it has used, so that the next reader does not read them again.
  for (const tablesIn of [markdownTables, csvTables, alignedTablesOf]) {
    for (const table of tablesIn(lines)) {
      found.push({ line: table.from, records: recordsOf(table) });
      lines.fill("", table.from, table.to);
    }
  }
  const pairs = pairRecords(lines);
  for (const pair of pairs) {
    found.push({ line: pair.lines[0] ?? 0, records: [pair.record] });
    for (const line of pair.lines) lines[line] = "";
  }
  found.sort((a, b) => a.line - b.line);
  for (const { records: batch } of found) {
    for (const record of batch) {
      if (records.isFull) return;
      records.add(record);
    }
  }
  if (pairs.length !== found.length) return;
  for (const entity of entitiesOf(lines.join("\n"))) {
    if (records.isFull) return;
    records.add(entity);
  }
}
