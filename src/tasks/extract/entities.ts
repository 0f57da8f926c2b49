// Finds single values with a known form: e-mail addresses, links, amounts, dates, numbers. The last reader of extract_json.

/** A value with a known form, as written in the text. */
export type Entity = { type: "email" | "url" | "money" | "percent" | "date" | "phone" | "id"; value: string };

const MONTH = "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\\.?";
const NUMBER = "(?:\\d{1,3}(?:[,.'’\\u00a0\\u202f ]\\d{3}){1,5}|\\d{1,15})(?:[.,]\\d{1,4})?(?!\\d)";
const SCALE = "(?: ?(?:thousand|million|billion|trillion|mn|bn|[kKmM])(?!\\w))?";
const CURRENCY = "(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD|TRY|USDC|BTC|ETH)";

// In order of priority: a later form does not match inside a match of an earlier one. Every repetition is bounded, and every
// form starts after a character that cannot belong to it. So a search costs at most a constant time per character.
const FORMS: readonly { type: Entity["type"]; pattern: RegExp }[] = [
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
  { type: "money", pattern: new RegExp(`(?<![\\w.,])[-−]?(?:(?:US|CA|AU|NZ|HK|S|C|A|R)?\\$|[€£¥₹₩₽₺₿])[ ]?${NUMBER}${SCALE}`, "gu") },
  { type: "money", pattern: new RegExp(`(?<![\\w.,])${CURRENCY} ?${NUMBER}${SCALE}`, "gu") },
  {
    type: "money",
    pattern: new RegExp(`(?<![\\w.,$€£])${NUMBER}${SCALE} ?(?:[€£¥₹₽₺]|${CURRENCY}(?!\\w)|(?:dollars?|euros?|pounds|yen|rupees|francs)(?!\\w))`, "gu"),
  },
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

/** The entities of `text`, in order, without overlaps. An entity that occurs again is listed once. */
export function entitiesOf(text: string): Entity[] {
  const taken = new Uint8Array(text.length);
  const found: { at: number; entity: Entity }[] = [];
  for (const { type, pattern } of FORMS) {
    for (const match of text.matchAll(pattern)) {
      const value = type === "url" ? trimUrl(match[0]) : match[0].trim();
      const at = match.index + match[0].indexOf(value);
      if (value === "" || !isPlausible(type, value) || taken[at] === 1 || taken[at + value.length - 1] === 1) continue;
      taken.fill(1, at, at + value.length);
      found.push({ at, entity: { type, value } });
    }
  }
  found.sort((a, b) => a.at - b.at);
  const seen = new Set<string>();
  return found.flatMap(({ entity }) => {
    const key = `${entity.type} ${entity.value}`;
    if (seen.has(key)) return [];
    seen.add(key);
    return [entity];
  });
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
