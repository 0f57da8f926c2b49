// The task extract_json: which of its readers decides, and in which order.
import { alignedTables, csvTables, markdownTables, recordsOf } from "./extract/tables.ts";
import { entitiesOf } from "./extract/entities.ts";
import { invoiceOf } from "./extract/invoice.ts";
import { extractJson, unquoted } from "./extract/json-islands.ts";
import { pairRecords } from "./extract/key-value.ts";
import { type ExtractedRecord, Records, setMember } from "./extract/record.ts";

/** Output of `extract_json`. `count` is the length of `extracted`. */
export type Extraction = { extracted: ExtractedRecord[]; count: number };

/**
 * The structured records in `input`. The first of these that finds any decides: JSON (whole, fenced, in prose), an
 * invoice, tables and `Label: value` records in the order of the text, entities as `{ type, value }`. Entities outside the
 * records are added only where records came from labels, as in a mail. Output is bounded by `OUTPUT_BOUNDS`.
 */
export function extractJsonTask(input: string): Extraction {
  const records = new Records();
  const text = unquoted(input) ?? input;
  if (!extractJson(text, records)) extractText(text, records);
  return { extracted: records.list, count: records.list.length };
}

/** `extraction` with every text in it put through `restore`. */
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

function extractText(text: string, records: Records): void {
  const invoice = invoiceOf(text);
  if (invoice !== undefined) return records.add(invoice);

  const lines = text.split(/\r\n|[\n\r\u2028\u2029]/);
  const found: { line: number; records: Iterable<ExtractedRecord> }[] = [];
  // Each form blanks the lines that it took, so that the next one does not read them again.
  for (const tablesIn of [markdownTables, csvTables, (left: readonly string[]) => alignedTables(left, 2)]) {
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
  if (found.length > 0 && pairs.length !== found.length) return;
  for (const entity of entitiesOf(lines.join("\n"))) {
    if (records.isFull) return;
    records.add(entity);
  }
}
