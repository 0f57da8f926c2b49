// The records of an extract_json output, and the limits of its size and depth.

/** One extracted object. */
export type ExtractedRecord = Record<string, unknown>;

/** The limits of an `extract_json` output. */
const OUTPUT_BOUNDS = {
  /** Levels of nesting, including the output object, its array and each record. */
  depth: 16,
  /** UTF-8 bytes of the whole output as JSON text. The limit of an output is 1 MiB; 1 KiB is reserved for the JSON around the records. */
  bytes: 1024 * 1024 - 1024,
  /** Characters of a member name that comes from a header or label. A longer name would be repeated in every record. */
  nameLength: 120,
} as const;

/**
 * Collects records as plain JSON data within `OUTPUT_BOUNDS`. Data beyond the maximum size is dropped. Readers check `isFull`
 * and stop, so a long header with many rows never expands to gigabytes.
 */
export class Records {
  readonly list: ExtractedRecord[] = [];
  private left: number = OUTPUT_BOUNDS.bytes;

  /** True if no more data fits. */
  get isFull(): boolean {
    return this.left <= 0;
  }

  /** Adds a copy of `record`, cut to the limits. An empty record is not added. */
  add(record: ExtractedRecord): void {
    if (this.isFull) return;
    const copy = this.object(record, 3);
    if (Object.keys(copy).length > 0) this.list.push(copy);
  }

  private object(source: object, depth: number): ExtractedRecord {
    const copy: ExtractedRecord = {};
    this.left -= 3;
    for (const [name, value] of Object.entries(source)) {
      if (value === undefined) continue;
      const ownName = name.toWellFormed();
      this.left -= jsonLength(ownName) + 2;
      if (this.isFull) break;
      // defineProperty, because an assignment to `__proto__` would change the prototype.
      Object.defineProperty(copy, ownName, { value: this.value(value, depth + 1), enumerable: true, configurable: true, writable: true });
    }
    return copy;
  }

  private value(value: unknown, depth: number): unknown {
    if (typeof value === "string") return this.string(value);
    if (typeof value === "number") {
      this.left -= 25;
      // JSON has no Infinity (the value of 1e999), and it writes -0 as 0.
      return Number.isFinite(value) ? value + 0 : null;
    }
    if (typeof value !== "object" || value === null) {
      this.left -= 6;
      return value ?? null;
    }
    if (depth > OUTPUT_BOUNDS.depth) {
      this.left -= 6;
      return null;
    }
    if (!Array.isArray(value)) return this.object(value, depth);
    const copy: unknown[] = [];
    this.left -= 3;
    for (const item of value) {
      if (this.isFull) break;
      copy.push(this.value(item, depth + 1));
    }
    return copy;
  }

  private string(value: string): string {
    const text = value.toWellFormed();
    const bytes = jsonLength(text) + 1;
    if (bytes <= this.left) {
      this.left -= bytes;
      return text;
    }
    // A UTF-16 code unit takes at most six bytes as JSON text, so this much fits.
    const kept = text.slice(0, Math.max(0, Math.floor(this.left / 6) - 1));
    this.left = 0;
    return kept.isWellFormed() ? kept : kept.slice(0, -1);
  }
}

/** The number of UTF-8 bytes of `text` as a JSON string with its quotes. */
function jsonLength(text: string): number {
  let bytes = 2;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x20) bytes += 6;
    else if (unit === 0x22 || unit === 0x5c) bytes += 2;
    else if (unit < 0x80) bytes += 1;
    // Each half of a surrogate pair counts as 2 bytes, because the pair takes 4.
    else bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  return bytes;
}

/** Sets an own member with any name, even `__proto__`. */
export function setMember(record: ExtractedRecord, name: string, value: unknown): void {
  Object.defineProperty(record, name, { value, enumerable: true, configurable: true, writable: true });
}

/** A header or label as a member name: trimmed, without Markdown marks, cut to the maximum length. */
export function memberName(label: string): string {
  return unmarked(label).replace(/\s+/g, " ").slice(0, OUTPUT_BOUNDS.nameLength).toWellFormed();
}

/** `text` without the Markdown marks around it. Underscores stay, because of names such as `__init__`. */
export function unmarked(text: string): string {
  let bare = text.trim();
  for (const mark of ["**", "`", "*"]) {
    if (bare.length > 2 * mark.length && bare.startsWith(mark) && bare.endsWith(mark)) bare = bare.slice(mark.length, -mark.length).trim();
  }
  return bare;
}

/** The value of a cell or label: a number, a boolean, null if empty, else the text as written. `007` and long numbers stay text. */
export function scalarOf(text: string): string | number | boolean | null {
  const bare = unmarked(text);
  if (bare === "") return null;
  if (/^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?$/.test(bare)) return Number(bare) + 0;
  const lower = bare.toLowerCase();
  if (lower === "true" || lower === "false") return lower === "true";
  return bare;
}
