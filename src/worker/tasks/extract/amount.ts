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

/** An amount of money or a plain number at the end or anywhere in a cell. */
export type Amount = { value: number; currency: string | undefined };

// Digits with at most one kind of thousands mark, then at most one decimal mark.
const AMOUNT =
  /(?<![\w.,])([-−(]?)(US\$|CA\$|AU\$|[$€£¥₹₩₽₺]|[A-Z]{3}(?= ?\d))? ?([-−]?)(\d{1,3}(?:[,.'’\u00a0\u202f]\d{3}){1,4}(?:[.,]\d{1,2})?|\d{1,12}(?:[.,]\d{1,4})?)(?![\d.,]?\d)(?: ?([€£¥₹₽₺]|[A-Z]{3}(?!\w| ?\d)))?/gu;

/** All amounts in `text`, in order. `1.234,50`, `1,234.50` and `1'234.50` are the same number. `12%` is none. */
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

/** The number a cell holds, or undefined if it holds none or more than a number and a currency. */
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
  const mark = Math.max(comma, point);
  const others = comma >= 0 && point >= 0;
  const marks = digits.split(decimal).length - 1;
  // One mark before exactly three digits parts thousands: nobody bills tenths of a cent.
  const isThousands = mark >= 0 && !others && (marks > 1 || digits.length - mark === 4);
  const plain = isThousands || mark < 0 ? digits.replace(/\D/g, "") : `${digits.slice(0, mark).replace(/\D/g, "")}.${digits.slice(mark + 1)}`;
  return Number(plain);
}
