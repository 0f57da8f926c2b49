import { alignedTables } from "./aligned-table.ts";
import { amountOfCell, amountsOf } from "./amount.ts";
import { csvTables } from "./csv.ts";
import { markdownTables } from "./markdown-table.ts";
import { unmarked } from "./record.ts";
import type { Table } from "./table.ts";

/** A line of an invoice; what is not stated is absent, but an amount follows from quantity and price. */
export type LineItem = { description: string; quantity?: number; unit_price?: number; amount?: number };

const COLUMNS = {
  quantity: /^(?:qty|quantity|hours?|hrs|count|units?|menge|anzahl|pcs|nights|days)\b/i,
  unit_price: /\b(?:unit(?: price| cost)?|price|rate|each|cost|einzelpreis|preis)\b/i,
  amount: /\b(?:amount|total|sum|line total|subtotal|betrag|gesamt)\b/i,
  description: /\b(?:description|item|product|service|article|details?|name|work|task|position|artikel|leistung)\b/i,
} as const;

const SUMMARY_ROW = /^(?:\W*)(?:sub-?\s?total|total|grand total|amount due|balance|tax|vat|gst|hst|discount|shipping)\b/i;

// "2 x Bagel @ $1.75 = $3.50", "3x Widget at $9.99"
const COUNTED =
  /(?<![\w.,])(\d{1,6}(?:\.\d{1,3})?) ?[x×] ?([\p{L}][^\n,;@=$€£:]{0,80}?) ?(?:@|\bat\b|\bfor\b|\bà\b) ?((?:[^\s=,;]|,(?=\d)){1,24}?)(?: each)?(?: ?= ?((?:[^\s,;]|,(?=\d)){1,24}))?(?=[\s,;]|\.(?:\s|$)|$)/gu;

/** The line items of an invoice given as lines, and the lines that their table took. */
export function lineItemsOf(lines: readonly string[]): { items: LineItem[]; taken: ReadonlySet<number> } {
  for (const tables of [markdownTables(lines), csvTables(lines), alignedTables(lines, 1)]) {
    const items = tables.flatMap(itemsOfTable);
    if (items.length > 0) return { items, taken: new Set(tables.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i))) };
  }
  const counted = countedItems(lines);
  return counted.items.length > 0 ? counted : priceList(lines);
}

function itemsOfTable({ header, rows }: Table): LineItem[] {
  const columns: Partial<Record<keyof typeof COLUMNS, number>> = {};
  header.forEach((label, i) => {
    for (const kind of ["quantity", "unit_price", "amount", "description"] as const) {
      if (columns[kind] !== undefined || !COLUMNS[kind].test(unmarked(label))) continue;
      columns[kind] = i;
      return;
    }
  });
  // "Price" alone is the amount of its line.
  if (columns.amount === undefined && columns.quantity === undefined && columns.unit_price !== undefined) {
    columns.amount = columns.unit_price;
    delete columns.unit_price;
  }
  const text = columns.description ?? header.findIndex((_, i) => !Object.values(columns).includes(i));
  if (text < 0 || (columns.amount === undefined && columns.unit_price === undefined)) return [];
  const cell = (row: readonly string[], column: number | undefined) => (column === undefined ? undefined : amountOfCell(row[column] ?? "")?.value);
  return rows.flatMap((row) => {
    const description = unmarked(row[text] ?? "");
    if (description === "" || SUMMARY_ROW.test(description)) return [];
    const item = itemOf(description, cell(row, columns.quantity), cell(row, columns.unit_price), cell(row, columns.amount));
    return item.amount === undefined && item.unit_price === undefined ? [] : [item];
  });
}

function countedItems(lines: readonly string[]): { items: LineItem[]; taken: Set<number> } {
  const items: LineItem[] = [];
  const taken = new Set<number>();
  lines.forEach((line, i) => {
    if (line.length > 20_000) return;
    for (const match of line.matchAll(COUNTED)) {
      const price = amountOfCell((match[3] ?? "").replace(/\.$/, ""))?.value;
      if (price === undefined) continue;
      items.push(itemOf((match[2] ?? "").trim(), Number(match[1]), price, amountOfCell((match[4] ?? "").replace(/\.$/, ""))?.value));
      taken.add(i);
    }
  });
  return { items, taken };
}

/** Lines that are a text and one amount with its currency at the end. */
function priceList(lines: readonly string[]): { items: LineItem[]; taken: Set<number> } {
  const items: LineItem[] = [];
  const taken = new Set<number>();
  lines.forEach((line, i) => {
    if (line.length > 200) return;
    const amounts = amountsOf(line);
    const [amount] = amounts;
    if (amounts.length !== 1 || amount?.currency === undefined || line.slice(amount.end).trim() !== "") return;
    const description = line
      .slice(0, amount.at)
      .replace(/[\s.:·–—-]+$/, "")
      .replace(/^[\s\-*•]+/, "");
    if (!/^\p{L}/u.test(description) || SUMMARY_ROW.test(description)) return;
    items.push(itemOf(description, undefined, undefined, amount.value));
    taken.add(i);
  });
  return { items, taken };
}

function itemOf(description: string, quantity: number | undefined, price: number | undefined, amount: number | undefined): LineItem {
  const item: LineItem = { description };
  if (quantity !== undefined) item.quantity = quantity;
  if (price !== undefined) item.unit_price = price;
  const total = amount ?? (quantity !== undefined && price !== undefined ? Math.round(quantity * price * 100) / 100 : undefined);
  if (total !== undefined) item.amount = total;
  return item;
}
