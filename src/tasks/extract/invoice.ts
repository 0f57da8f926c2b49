// Reads an invoice or a receipt as one record of extract_json.
import { pairsOfLine } from "./key-value.ts";
import { type ExtractedRecord, scalarOf, setMember, unmarked } from "./record.ts";
import { alignedTables, columnsOf, csvTables, markdownTables, type Table } from "./tables.ts";
import { amountOfCell, amountsOf, entitiesOf, isoDate } from "./values.ts";

// A longer text is not an invoice: it only mentions invoices.
const MAX_LENGTH = 64 * 1024;

const TRIGGER = /\b(?:invoice|receipt|bill(?:ed)? to|rechnung|facture|factura)\b/i;
const NUMBER = /\b(?:invoice|receipt|bill|rechnung|facture)s?(?: ?(?:no|nr|number|num|id)\b\.?)?[ ]{0,3}[:#]{0,2} {0,3}#?([A-Z0-9][A-Z0-9/_-]{1,29})/gi;
const VENDOR = /^(?:from|vendor|seller|supplier|merchant|biller|billed by|sold by|issued by|payee|remit to) {0,3}:? (?=\S)/i;
const CUSTOMER = /^(?:bill(?:ed)? to|sold to|invoice(?:d)? to|customer|client|buyer|attn|to)(?: {0,3}: {0,3}| (?=\p{Lu})|$)/iu;
const DUE = /\b(?:due date|payment due|due by|due on|pay by|payable by|due)\b/gi;
const DATED = /\b(?:invoice date|date of issue|issue date|billing date|issued on|issued|dated|date)\b/gi;
const TOTALS = [
  /\b(?:amount|total|balance) (?:due|payable|owed)\b|\bamount to pay\b/gi,
  /\bgrand total\b|\btotal amount\b|\binvoice total\b/gi,
  // "Total tax" is a tax, and "total items" a number of them.
  /(?<!sub[- ]?)\b(?:total|gesamtbetrag|gesamt)\b(?! {1,3}(?:sales tax|tax|vat|gst|hst|mwst|ust|tva|iva|discount|savings|shipping|delivery|weight|items?|units?|qty|quantity|pages?)\b)/gi,
];
const SUBTOTAL = [/\bsub[- ]?total\b|\bnet (?:total|amount)\b|\bzwischensumme\b/gi];
const TAX = /\b(?:sales tax|tax|vat|gst|hst|mwst|ust|tva|iva)\b(?! ?(?:id|no|nr|number|reg|invoice|included|exempt))(?: \d(?= ?[:(]))?/gi;
const DISCOUNT = /\bdiscount\b/gi;
const SHIPPING = /\b(?:shipping|delivery|freight|postage)(?: (?:fee|cost|charge)s?)?\b/gi;
// A total names these too: "Total including tax: $49".
const PARTS: ReadonlySet<RegExp> = new Set([TAX, DISCOUNT, SHIPPING]);
const TERMS = /\b(?:net \d{1,3}(?: days)?|due (?:up)?on receipt)\b/i;
const KNOWN_LABEL =
  /^(?:.*\b(?:invoice|receipt|bill|date|due|total|subtotal|tax|vat|gst|hst|discount|shipping|amount|balance|vendor|seller|supplier|merchant|customer|client|buyer|from|to|items?|payment terms|terms|phone|tel|e-?mail|web(?:site)?)\b.*)$/i;

/**
 * One invoice or receipt as a record; undefined if `text` is not one. An invoice has the word "invoice" (or a similar one), a
 * total, and a number or items.
 */
export function invoiceOf(text: string): ExtractedRecord | undefined {
  if (text.length > MAX_LENGTH || !TRIGGER.test(text)) return undefined;
  const lines = text.split(/\r\n|\n|\r/);
  const { items, taken } = lineItemsOf(lines);
  const otherLines = lines.filter((_, i) => !taken.has(i));
  // A long line with items is a sentence, and such a sentence often also has the totals.
  const searched = lines.some((line, i) => taken.has(i) && line.length > 100) ? lines : otherLines;
  const total = amountAfter(searched, TOTALS);
  const number = numberIn(lines);
  if (total === undefined || (number === undefined && items.length === 0)) return undefined;

  const tax = taxIn(searched);
  const due = dateAfter(lines, DUE, /(?!)/);
  const record: ExtractedRecord = { type: "invoice" };
  const put = (name: string, value: unknown) => {
    if (value !== undefined && value !== "") setMember(record, name, value);
  };
  put("vendor", partyAfter(lines, VENDOR) ?? vendorInSentence(lines) ?? headingOf(lines));
  put("customer", partyAfter(lines, CUSTOMER));
  put("invoice_number", number);
  put("invoice_date", dateAfter(lines, DATED, /due $/i) ?? firstDate(lines, due));
  put("due_date", due);
  put("payment_terms", TERMS.exec(text)?.[0]);
  put("currency", currencyIn(text));
  if (items.length > 0) put("items", items);
  put("subtotal", amountAfter(searched, SUBTOTAL)?.value);
  put("discount", amountAfter(searched, [DISCOUNT])?.value);
  put("shipping", amountAfter(searched, [SHIPPING])?.value);
  put("tax", tax?.value);
  put("tax_rate", tax?.rate);
  put("total", total.value);
  const contacts = entitiesOf(text);
  for (const type of ["email", "phone", "url"] as const) put(type, contacts.find((entity) => entity.type === type)?.value);
  for (const pair of lines.flatMap((_, i) => (taken.has(i) ? [] : pairsOfLine(lines, i)))) {
    const name = pair.label
      .toLowerCase()
      .replace(/[^\p{L}\p{N}]+/gu, "_")
      .replace(/^_|_$/g, "");
    if (name === "" || KNOWN_LABEL.test(pair.label) || Object.hasOwn(record, name)) continue;
    put(name, Array.isArray(pair.value) ? pair.value.map(scalarOf) : scalarOf(pair.value.replace(/\.$/, "")));
  }
  return record;
}

/** An amount after a label; `rate` is the percentage between them. */
type Labelled = { label: string; value: number; rate: string | undefined };

/** The amount after the last match of the first pattern in `labels` that has one. */
function amountAfter(lines: readonly string[], labels: readonly RegExp[]): Labelled | undefined {
  for (const label of labels) {
    const found = amountsAfter(lines, label).at(-1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The last tax, or the sum of `Tax 1`, `Tax 2` and so on. */
function taxIn(lines: readonly string[]): Labelled | undefined {
  const taxes = amountsAfter(lines, TAX);
  const numbered = new Map(taxes.filter(({ label }) => /\d$/.test(label)).map((tax) => [tax.label.toLowerCase(), tax]));
  if (numbered.size < 2) return taxes.at(-1);
  const sum = [...numbered.values()].reduce((total, { value }) => total + value, 0);
  return { label: "", value: Math.round(sum * 100) / 100, rate: undefined };
}

function amountsAfter(lines: readonly string[], label: RegExp): Labelled[] {
  const found: Labelled[] = [];
  for (const line of lines) {
    for (const match of line.matchAll(label)) {
      const rest = line.slice(match.index + match[0].length, match.index + match[0].length + 80);
      const after = PARTS.has(label) ? ownText(line.slice(Math.max(0, match.index - 40), match.index), rest) : rest;
      const amount = amountIn(after);
      if (amount !== undefined) found.push({ label: match[0], value: amount.value, rate: /\d{1,3}(?:[.,]\d{1,3})? ?%/.exec(after.slice(0, amount.at))?.[0] });
    }
  }
  return found;
}

/**
 * The part of `after` that can have the amount of a tax, a discount or a delivery. If the label only describes a total, this is the rest
 * of its brackets: nothing in "Total including tax: $49", but " $8)" in "Total (incl. tax $8): $49".
 */
function ownText(before: string, after: string): string {
  const described = /\b(?:total|amount|balance|price|gesamtbetrag|gesamt)\b([^;]*\b(?:incl|inkl|excl|exkl|with|without|before|after)[^;]*)$/i.exec(before)?.[1];
  if (described === undefined || amountsOf(described).length > 0) return after;
  return /\([^)]*$/.test(described) ? after.slice(0, after.indexOf(")") + 1) : "";
}

// A remark or a date between a label and its amount: "Total (2 items) $5.75", "Total (2): $5.75", "Due in 30 days: $5.75". "(USD 5.75)" is an amount.
const REMARK =
  /^\s{0,9}(?:\(\d{1,3}\)(?= ?:)|\((?!(?:[A-Z]{3} ?)?[\d.,]+(?: ?[A-Z]{3})?\))[^()\p{Sc}]*\p{L}[^()]*\)|(?:by|on|before|until|within|in|for)\b[^:.,\p{Sc}]{1,40}:)/u;
// After a new clause the amount belongs to another label: "total of 3 items, tax $4".
const NEW_CLAUSE = /[;]|, \p{L}|(?<!\bincl|\binkl)\. \p{Lu}/u;
const OTHER_LABEL = /\b(?:incl|inkl|plus|total|sub-?total|tax|vat|gst|hst|mwst|ust|tva|iva|discount|shipping|paid|balance)/i;

/** The amount in the text after a label: the first with a currency or cents, unless another label precedes it, else the first number. */
function amountIn(after: string): { value: number; at: number } | undefined {
  const bare = after.replace(REMARK, (remark) => " ".repeat(remark.length));
  const [first, ...others] = amountsIn(bare).length > 0 ? amountsIn(bare) : amountsIn(after);
  if (first === undefined || first.isMoney) return first;
  return others.find(({ isMoney, at }) => isMoney && !OTHER_LABEL.test(after.slice(first.end, at))) ?? first;
}

/** The amounts in the first clause of `text`. One with a currency or cents is money. */
function amountsIn(text: string): { value: number; at: number; end: number; isMoney: boolean }[] {
  return amountsOf(text)
    .filter(({ at }) => !NEW_CLAUSE.test(text.slice(0, at)))
    .map(({ value, currency, at, end }) => ({
      value,
      at,
      end,
      isMoney: (currency !== undefined && CODES.has(currency)) || /[.,]\d{2}(?!\d)/.test(text.slice(at, end)),
    }));
}

function numberIn(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    for (const match of line.matchAll(NUMBER)) {
      const value = (match[1] ?? "").replace(/[-/_]+$/, "");
      if (/\d/.test(value) && !/^\d{1,2}\/\d/.test(value)) return value;
    }
  }
  return undefined;
}

/** The date after a match of `label`, unless `notAfter` matches the text before the label. */
function dateAfter(lines: readonly string[], label: RegExp, notAfter: RegExp): string | undefined {
  for (const line of lines) {
    for (const match of line.matchAll(label)) {
      if (notAfter.test(line.slice(Math.max(0, match.index - 8), match.index))) continue;
      const after = line.slice(match.index + match[0].length, match.index + match[0].length + 48);
      const date = entitiesOf(after).find(({ type }) => type === "date");
      if (date !== undefined && after.indexOf(date.value) <= 16) return isoDate(date.value);
    }
  }
  return undefined;
}

function firstDate(lines: readonly string[], other: string | undefined): string | undefined {
  for (const line of lines) {
    const date = entitiesOf(line.slice(0, 500)).find((entity) => entity.type === "date" && isoDate(entity.value) !== other);
    if (date !== undefined) return isoDate(date.value);
  }
  return undefined;
}

/** The party named after a label or on the next line. */
function partyAfter(lines: readonly string[], label: RegExp): string | undefined {
  for (let i = 0; i < lines.length; i++) {
    // Labels stand at the start of a line, of a column or of a sentence.
    for (const part of columnsOf(lines[i] ?? "").flatMap((column) => column.split(/(?<=[^.]{3}\.) (?=\p{Lu})/u))) {
      const bare = unmarked(part.replace(/\*\*/g, ""));
      const match = label.exec(bare);
      if (match === null) continue;
      const after = bare.slice(match[0].length);
      const party = partyOf(after === "" ? (columnsOf(lines[i + 1] ?? "")[0] ?? "") : after);
      if (party !== "" && !/^[:]|:$/.test(party)) return party;
    }
  }
  return undefined;
}

function vendorInSentence(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    const match = /\b(?:from|by) (\p{Lu}[\p{L}\p{N}&.' -]{1,60}?)(?= dated| on | for |,|;|\. |\.?$)/u.exec(line.slice(0, 500));
    if (match !== null) return partyOf(match[1] ?? "");
  }
  return undefined;
}

/** The name at the top of the text, where the letterhead of a vendor stands. */
function headingOf(lines: readonly string[]): string | undefined {
  for (const line of lines.filter((candidate) => candidate.trim() !== "").slice(0, 4)) {
    const name = unmarked((columnsOf(line)[0] ?? "").replace(/^#+ /, ""));
    if (
      name.length > 80 ||
      !/^[\p{L}\d]/u.test(name) ||
      !/\p{L}{2}/u.test(name) ||
      /[:@#|]|\b(?:invoice|receipt|bill|date|rechnung|facture|page)\b/i.test(name)
    )
      continue;
    return name;
  }
  return undefined;
}

/** The name without the punctuation of its sentence. "Ltd." and similar endings keep their point. */
function partyOf(text: string): string {
  const name = text.trim().slice(0, 120).toWellFormed();
  return /\b(?:Ltd|Inc|Co|Corp|Bros|Jr|Sr|Pty|S\.A|L\.P|a\.s|s\.r\.o)\.$/.test(name) ? name : name.replace(/[.,;]+$/, "");
}

/** The currency that occurs most often in `text`. */
function currencyIn(text: string): string | undefined {
  const counts = new Map<string, number>();
  for (const { currency } of amountsOf(text)) {
    if (currency !== undefined && CODES.has(currency)) counts.set(currency, (counts.get(currency) ?? 0) + 1);
  }
  let best: string | undefined;
  for (const [currency, count] of counts) if (best === undefined || count > (counts.get(best) ?? 0)) best = currency;
  return best;
}

const CODES: ReadonlySet<string> = new Set("USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF BRL MXN ZAR KRW SGD HKD TRY RUB".split(" "));

/** One item of an invoice. A value that the text does not state is absent; the amount is computed from quantity and price. */
type LineItem = { description: string; quantity?: number; unit_price?: number; amount?: number };

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

/** The items of an invoice, and the indices of the lines that they came from. */
function lineItemsOf(lines: readonly string[]): { items: LineItem[]; taken: ReadonlySet<number> } {
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
  // If "Price" is the only column with numbers, it is the amount of the line.
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

/** Items from lines that consist of a text and one amount with its currency at the end. */
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
