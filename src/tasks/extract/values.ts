// Reads single values with a known form: entities (e-mail addresses, links, dates, numbers) for extract_json, and amounts and exact dates for invoice.ts.

/** A value with a known form, as written in the text. */
type Entity = { type: "email" | "url" | "money" | "percent" | "date" | "phone" | "id"; value: string };

const MONTH = "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\\.?";
const NUMBER = "(?:\\d{1,3}(?:[,.'’\\u00a0\\u202f ]\\d{3}){1,5}|\\d{1,15})(?:[.,]\\d{1,4})?(?!\\d)";
const SCALE = "(?: ?(?:thousand|million|billion|trillion|mn|bn|[kKmM])(?!\\w))?";
const CURRENCY = "(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD|TRY|USDC|BTC|ETH)";
const DOLLAR = "(?:US|CA|AU|NZ|HK|S|C|A|R)?\\$";
const SYMBOL = "[€£¥₹₩₽₺₿]";
const SPACE = "[ \\u00a0\\u202f]";

const SIGN_FIRST = new RegExp(`(?<![\\w.,])(?:[-−]?(?:${DOLLAR}|${SYMBOL})|${CURRENCY})${SPACE}?${NUMBER}${SCALE}`, "gu");
// A dollar sign before a letter or a bracket begins the name of a variable, as in `sleep 5 $UNIT`. A sign between a space and a digit
// belongs to that digit, as in `3 €10`.
const SIGN_LAST = new RegExp(
  `(?<![\\w.,$€£])${NUMBER}${SCALE}(?:${SPACE}?(?:${CURRENCY}|dollars?|euros?|pounds|yen|rupees|francs)(?!\\w)|(?:${SPACE}(?!${SYMBOL}\\d))?(?:${DOLLAR}(?![\\w{(])|${SYMBOL}))`,
  "gu",
);

// In order of priority: a later form does not match inside a match of an earlier one. Every repetition is bounded, and every
// form starts after a character that cannot belong to it. So a search costs at most a constant time per character. `other` has the
// same priority as `pattern`, and their matches may overlap.
const FORMS: readonly { type: Entity["type"]; pattern: RegExp; other?: RegExp }[] = [
  { type: "url", pattern: /(?<![\w@])(?:https?:\/\/|www\.(?=[\p{L}\p{N}]))[^\s<>"'“”‘’`|\\^{}]{1,2000}/giu },
  { type: "email", pattern: /(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,24}(?![\w@])/gu },
  { type: "id", pattern: /(?<![\w-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-])/gi },
  {
    type: "date",
    pattern:
      /(?<![\w/-])\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?![\w-])/g,
  },
  { type: "date", pattern: new RegExp(`(?<![\\w-])(?:[12]?\\d|3[01])(?:st|nd|rd|th)?(?: of)?[ -]${MONTH},?[ -]\\d{4}(?!\\w)`, "gi") },
  { type: "date", pattern: new RegExp(`(?<![\\w-])${MONTH} (?:[12]?\\d|3[01])(?:st|nd|rd|th)?,? \\d{4}(?!\\w)`, "gi") },
  { type: "date", pattern: /(?<![\w./-])(?:\d{1,2}\/\d{1,2}\/(?:\d{4}|\d{2})|\d{1,2}\.\d{1,2}\.\d{4}|\d{4}\/\d{1,2}\/\d{1,2})(?![\w/-])/g },
  { type: "date", pattern: /\d{4}年\d{1,2}月\d{1,2}日/g },
  { type: "percent", pattern: /(?<![\w.,])[+\-−]?\d{1,9}(?:[.,]\d{1,6})? ?(?:%|per ?cent(?!\w))/gi },
  { type: "money", pattern: SIGN_FIRST, other: SIGN_LAST },
  { type: "phone", pattern: /(?<![\w.+/-])(?:\+\d{1,3}[ .-]?)?(?:\(0?\d{1,5}\)[ .-]?)?\d{2,5}(?:[ .\-/]\d{2,5}){1,5}(?![\w/-]|[.,]\d)/g },
  { type: "phone", pattern: /(?<![\w.+/-])\+\d{8,15}(?!\w)/g },
  {
    type: "id",
    pattern:
      /(?<![\w#-])(?:[A-Z]{2,10}[-_/]?\d{3,12}|[A-Z]{1,10}(?:[-_/][A-Z0-9]{1,12}){0,3}[-_/]\d{2,12}|#[A-Z]{0,5}-?\d{2,12})(?:[-/][A-Z0-9]{1,12}){0,3}(?![\w-])/g,
  },
];

// Names of standards look like reference numbers but are not.
const STANDARD = /^(?:UTF|ISO|RFC|SHA|MD|IEEE|COVID|CVE-0|ES|HTTP|MP|X|DIN|EN|AES|RSA|ECDSA|ED)[-_/]?\d{1,5}$/;

/** A value at its place in the text. `end` is the place after its last character. */
type Found = { type: Entity["type"]; value: string; at: number; end: number };

/** The entities of `text`, in order, without overlaps. An entity that occurs again is listed once. */
export function entitiesOf(text: string): Entity[] {
  const taken = new Uint8Array(text.length);
  const found: Found[] = [];
  for (const { type, pattern, other } of FORMS) {
    const isFree = ({ at, end }: Found): boolean => taken[at] !== 1 && taken[end - 1] !== 1;
    const free = valuesOf(text, type, pattern).filter(isFree);
    for (const one of other === undefined ? free : withoutOverlaps(free, valuesOf(text, type, other).filter(isFree))) {
      taken.fill(1, one.at, one.end);
      found.push(one);
    }
  }
  found.sort((a, b) => a.at - b.at);
  const seen = new Set<string>();
  return found.flatMap(({ type, value }) => {
    const key = `${type} ${value}`;
    if (seen.has(key)) return [];
    seen.add(key);
    return [{ type, value }];
  });
}

function valuesOf(text: string, type: Entity["type"], pattern: RegExp): Found[] {
  const found: Found[] = [];
  for (const match of text.matchAll(pattern)) {
    const value = type === "url" ? trimUrl(match[0]) : match[0].trim();
    const at = match.index + match[0].indexOf(value);
    if (value !== "" && isPlausible(type, value)) found.push({ type, value, at, end: at + value.length });
  }
  return found;
}

/**
 * Chooses between amounts whose sign comes first and amounts whose sign follows, where they share a sign or a number. Numbers and signs
 * that alternate form one run, and all signs of a run stand on the same side of their numbers. The side that gives more amounts is right:
 * the signs follow in `5 € 10 €`, and come first in `€ 5 € 10`. If both give as many, as in `3 € 10`, the first number is usually a quantity.
 */
function withoutOverlaps(signFirst: readonly Found[], signLast: readonly Found[]): Found[] {
  const isSignLast = new Set(signLast);
  const all = [...signFirst, ...signLast].sort((a, b) => a.at - b.at);
  const chosen: Found[] = [];
  for (let from = 0, to = 0; from < all.length; from = to) {
    for (let end = 0; to < all.length && (to === from || (all[to]?.at ?? 0) < end); to++) end = Math.max(end, all[to]?.end ?? 0);
    const run = all.slice(from, to);
    const isLastRight = 2 * run.filter((one) => isSignLast.has(one)).length > run.length;
    for (const one of run) if (isSignLast.has(one) === isLastRight) chosen.push(one);
  }
  return chosen;
}

/** False for a match that has the form of its type but means something else. */
function isPlausible(type: Entity["type"], value: string): boolean {
  if (type === "id") return !STANDARD.test(value);
  if (type === "email") return !value.startsWith(".") && !value.includes("..");
  if (type !== "phone") return true;
  const digits = value.replace(/\D/g, "").length;
  if (digits < 7 || digits > 15) return false;
  // A phone number starts with a plus, a bracket or a zero, or has the form 555-123-4567. Other groups of digits are not phone numbers.
  return /^[+(0]/.test(value) || /^\d{3}[ .-]\d{3}[ .-]\d{4}$/.test(value) || /^1[ .-]\d{3}[ .-]\d{3}[ .-]\d{4}$/.test(value);
}

/** Cuts the punctuation of the surrounding sentence from the end. A closing bracket stays if the URL has its opening bracket. */
function trimUrl(url: string): string {
  let unmatched = url.split(")").length - url.split("(").length;
  let end = url.length;
  for (; end > 0; end--) {
    const last = url[end - 1] ?? "";
    if (last === ")" && unmatched > 0) unmatched--;
    else if (!".,;:!?*_]。，、".includes(last)) break;
  }
  const bare = url.slice(0, end);
  return /^(?:https?:\/\/|www\.)$/i.test(bare) ? "" : bare;
}

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
type Amount = { value: number; currency: string | undefined };

// Digits with at most one kind of thousands separator, then at most one decimal separator. A plain space may also stand between a
// quantity and a price. So it separates thousands only after a colon or a currency, or before a currency or a decimal comma.
const SPACED = String.raw`(?<=[:\p{Sc}] ?|(?<!\w)[A-Z]{3} ?)\d{1,3}(?: \d{3}){1,4}(?:[.,]\d{1,2})?|\d{1,3}(?: \d{3}){1,4}(?:,\d{1,2}|(?:\.\d{1,2})?(?= ?(?:[€£¥₹₽₺]|[A-Z]{3}(?!\w))))`;
const DIGITS = String.raw`${SPACED}|\d{1,3}(?:[,.'’\u00a0\u202f]\d{3}){1,4}(?:[.,]\d{1,2})?|\d{1,12}(?:[.,]\d{1,4})?`;
const AMOUNT = new RegExp(
  String.raw`(?<![\w.,])([-−(]?)(US\$|CA\$|AU\$|[$€£¥₹₩₽₺]|[A-Z]{3}(?= ?\d))? ?([-−]?)(${DIGITS})(?![\d.,]?\d)(?: ?([€£¥₹₽₺]|[A-Z]{3}(?!\w| ?\d)))?`,
  "gu",
);

/** All amounts in `text`, in order. `1.234,50`, `1,234.50` and `1'234.50` are the same number, and `(5.00)` is -5. `12%` is not an amount. */
export function amountsOf(text: string): (Amount & { at: number; end: number })[] {
  const amounts: (Amount & { at: number; end: number })[] = [];
  for (const match of text.matchAll(AMOUNT)) {
    const end = match.index + match[0].length;
    const after = text.slice(end, end + 2);
    if (/^ ?%/.test(after)) continue;
    const size = numberOf(match[4] ?? "");
    const sign = match[1] === "(" && !/^ ?\)/.test(after) ? "" : match[1];
    const isNegative = (sign ?? "") !== "" || (match[3] ?? "") !== "";
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

/**
 * A date as `YYYY-MM-DD` if it has only one meaning, else as written: `03/04/2026` means different days in different countries, and `31.02.2026` means none.
 */
export function isoDate(text: string): string {
  const [, isoYear, isoMonth, isoDay] = /^(\d{4})-(\d{2})-(\d{2})/.exec(text) ?? [];
  if (isoYear !== undefined) return dateOf(isoYear, Number(isoMonth), Number(isoDay)) ?? text;
  const month = MONTHS.findIndex((name) => new RegExp(`(?<![a-z])${name}`, "i").test(text));
  const year = /\d{4}/.exec(text)?.[0];
  if (year === undefined) return text;
  if (month >= 0) return dateOf(year, month + 1, Number(/(?<!\d)\d{1,2}(?!\d)/.exec(text)?.[0])) ?? text;
  const [first = 0, second = 0] = text.split(/[./]/).map(Number);
  // With points, the day always comes first. With slashes, only a number above 12 shows which part is the day.
  if (/^\d{1,2}\.\d{1,2}\.\d{4}$/.test(text)) return dateOf(year, second, first) ?? text;
  if (/^\d{1,2}\/\d{1,2}\/\d{4}$/.test(text) && (first > 12 || second > 12)) return dateOf(year, second, first) ?? dateOf(year, first, second) ?? text;
  return text;
}

/** The date in ISO form; undefined if the calendar has no such day. */
function dateOf(year: string, month: number, day: number): string | undefined {
  const isLeap = Number(year) % 4 === 0 && (Number(year) % 100 !== 0 || Number(year) % 400 === 0);
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return day >= 1 && day <= days ? `${year}-${two(month)}-${two(day)}` : undefined;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
