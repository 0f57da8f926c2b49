/** One extracted object. */
export type ExtractedRecord = Record<string, unknown>;

/** Bounds of an `extract_json` output. */
const OUTPUT_BOUNDS = {
  /** Nesting, counting the output object, its array and each record. */
  depth: 16,
  /** UTF-8 bytes of the whole output as JSON text; the limit is 1 MiB, the rest is room for the frame around the records. */
  bytes: 1024 * 1024 - 1024,
  /** Characters of a member name taken from a header or label; longer ones would be repeated in every record. */
  nameLength: 120,
} as const;

/**
 * Collects records as plain JSON data within `OUTPUT_BOUNDS`. Past the size the rest is dropped: stages ask `isFull`
 * and stop, so a long header over many rows never unfolds to gigabytes.
 */
export class Records {
  readonly list: ExtractedRecord[] = [];
  private left: number = OUTPUT_BOUNDS.bytes;

  /** Whether nothing more is kept. */
  get isFull(): boolean {
    return this.left <= 0;
  }

  /** Adds a copy of `record`, cut to the bounds; an empty record is no finding. */
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
      // Defined, not assigned: `__proto__` is a member like any other.
      Object.defineProperty(copy, ownName, { value: this.value(value, depth + 1), enumerable: true, configurable: true, writable: true });
    }
    return copy;
  }

  private value(value: unknown, depth: number): unknown {
    if (typeof value === "string") return this.string(value);
    if (typeof value === "number") {
      this.left -= 25;
      // JSON text such as 1e999 reads as Infinity, which JSON cannot write; -0 would be written as 0.
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
    // At most six bytes a unit: this much is sure to fit.
    const kept = text.slice(0, Math.max(0, Math.floor(this.left / 6) - 1));
    this.left = 0;
    return kept.isWellFormed() ? kept : kept.slice(0, -1);
  }
}

/** UTF-8 bytes of `text` as a JSON string with its quotes. */
function jsonLength(text: string): number {
  let bytes = 2;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x20) bytes += 6;
    else if (unit === 0x22 || unit === 0x5c) bytes += 2;
    else if (unit < 0x80) bytes += 1;
    // Each half of a surrogate pair counts 2, the pair 4.
    else bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  return bytes;
}

/** Sets an own member, whatever its name. */
export function setMember(record: ExtractedRecord, name: string, value: unknown): void {
  Object.defineProperty(record, name, { value, enumerable: true, configurable: true, writable: true });
}

/** A header or label as a member name: trimmed, Markdown marks taken off, cut to its bound. */
export function memberName(label: string): string {
  return unmarked(label).replace(/\s+/g, " ").slice(0, OUTPUT_BOUNDS.nameLength).toWellFormed();
}

/** `text` without the Markdown marks around it; underscores stay, for the sake of `__init__`. */
export function unmarked(text: string): string {
  let bare = text.trim();
  for (const mark of ["**", "`", "*"]) {
    if (bare.length > 2 * mark.length && bare.startsWith(mark) && bare.endsWith(mark)) bare = bare.slice(mark.length, -mark.length).trim();
  }
  return bare;
}

/** A cell or label value: numbers and booleans as such, empty as null, all else as written. `007` and long digits stay text. */
export function scalarOf(text: string): string | number | boolean | null {
  const bare = unmarked(text);
  if (bare === "") return null;
  if (/^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?$/.test(bare)) return Number(bare) + 0;
  const lower = bare.toLowerCase();
  if (lower === "true" || lower === "false") return lower === "true";
  return bare;
}
