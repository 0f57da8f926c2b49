// Reads amounts of money, plain numbers and dates, for invoice.ts.
const SYMBOLS: ReadonlyMap<string, string> = new Map([
  ["$", "USD"],
  ["€", "EUR"],
  ["£", "GBP"],
  ["¥", "JPY"],
  ["₹", "INR"],
  ["₩", "KRW"],
  ["₽", "RUB"],
  ["₺", "TRY"],
]);

/** An amount of money, or a plain number. */
export type Amount = { value: number; currency: string | undefined };

// Digits with at most one kind of thousands separator, then at most one decimal separator.
const AMOUNT =
  /(?<![\w.,])([-−(]?)(US\$|CA\$|AU\$|[$€£¥₹₩₽₺]|[A-Z]{3}(?= ?\d))? ?([-−]?)(\d{1,3}(?:[,.'’\u00a0\u202f]\d{3}){1,4}(?:[.,]\d{1,2})?|\d{1,12}(?:[.,]\d{1,4})?)(?![\d.,]?\d)(?: ?([€£¥₹₽₺]|[A-Z]{3}(?!\w| ?\d)))?/gu;

/** All amounts in `text`, in order. `1.234,50`, `1,234.50` and `1'234.50` are the same number. `12%` is not an amount. */
export function amountsOf(text: string): (Amount & { at: number; end: number })[] {
  const amounts: (Amount & { at: number; end: number })[] = [];
  for (const match of text.matchAll(AMOUNT)) {
    const end = match.index + match[0].length;
    if (/^ ?%/.test(text.slice(end, end + 2))) continue;
    const size = numberOf(match[4] ?? "");
    const isNegative = (match[1] ?? "") !== "" || (match[3] ?? "") !== "";
    amounts.push({ value: isNegative && size !== 0 ? -size : size, currency: currencyOf(match[2] ?? match[5]), at: match.index, end });
  }
  return amounts;
}

/** The amount in a cell; undefined if the cell has no amount, or has more than an amount with its currency or unit. */
export function amountOfCell(cell: string): Amount | undefined {
  const [amount, ...others] = amountsOf(cell);
  if (amount === undefined || others.length > 0) return undefined;
  const rest = `${cell.slice(0, amount.at)}${cell.slice(amount.end)}`;
  return /^[\s)]*(?:x|pcs|pc|h|hrs|hours|ea|each)?[\s).]*$/i.test(rest) ? amount : undefined;
}

function currencyOf(mark: string | undefined): string | undefined {
  if (mark === undefined) return undefined;
  return SYMBOLS.get(mark) ?? (mark.endsWith("$") ? `${mark.slice(0, 2)}D` : mark);
}

function numberOf(digits: string): number {
  const comma = digits.lastIndexOf(",");
  const point = digits.lastIndexOf(".");
  const decimal = comma > point ? "," : ".";
  const separator = Math.max(comma, point);
  const hasBoth = comma >= 0 && point >= 0;
  const count = digits.split(decimal).length - 1;
  // A single separator before exactly three digits separates thousands, because bills have no tenths of a cent.
  const isThousands = separator >= 0 && !hasBoth && (count > 1 || digits.length - separator === 4);
  const plain = isThousands || separator < 0 ? digits.replace(/\D/g, "") : `${digits.slice(0, separator).replace(/\D/g, "")}.${digits.slice(separator + 1)}`;
  return Number(plain);
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/** A date as `YYYY-MM-DD` if it has only one meaning, else as written: `03/04/2026` means different days in different countries. */
export function isoDate(text: string): string {
  const iso = /^(\d{4})-(\d{2})-(\d{2})/.exec(text);
  if (iso) return iso[0];
  const month = MONTHS.findIndex((name) => new RegExp(`(?<![a-z])${name}`, "i").test(text));
  const year = /\d{4}/.exec(text)?.[0];
  if (year === undefined) return text;
  if (month >= 0) {
    const day = /(?<!\d)\d{1,2}(?!\d)/.exec(text)?.[0];
    return day === undefined ? text : `${year}-${two(month + 1)}-${two(Number(day))}`;
  }
  const parts = text.split(/[./]/).map(Number);
  const [first = 0, second = 0] = parts;
  // With points, the day always comes first. With slashes, only a number above 12 shows which part is the day.
  if (/^\d{1,2}\.\d{1,2}\.\d{4}$/.test(text) && second <= 12 && first <= 31) return `${year}-${two(second)}-${two(first)}`;
  if (/^\d{1,2}\/\d{1,2}\/\d{4}$/.test(text)) {
    if (first > 12 && first <= 31 && second <= 12) return `${year}-${two(second)}-${two(first)}`;
    if (second > 12 && second <= 31 && first <= 12) return `${year}-${two(first)}-${two(second)}`;
  }
  return text;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
