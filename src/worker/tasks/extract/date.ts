const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/** A date as `YYYY-MM-DD` where it can be read in one way only, else as written: `03/04/2026` differs by country. */
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
  // Points are day first everywhere; slashes are settled only by a number past 12.
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
