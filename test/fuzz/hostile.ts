// Random hostile texts, numbers and JSON values, for npm run fuzz.
import * as fc from "fast-check";

/** Text that breaks parsers, stores and terminals. */
export const nasty: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ unit: "grapheme", maxLength: 40 }),
  fc.constantFrom(
    ...["", " ", "\0", "\u{feff}", "\u{202e}abc", "\ud800", "\udfff\ud800", "%00", "null", "undefined", "NaN", "__proto__", "constructor", "toString"],
    ...["' OR 1=1 --", '"; DROP TABLE jobs; --', "<script>alert(1)</script>", "../../etc/passwd", "{{7*7}}", "${7*7}", "\r\nx: y", "0x10", "1e400", "-0"],
  ),
  fc.integer({ min: 1, max: 5_000 }).map((length) => "a".repeat(length)),
);

/** Numbers at the edges of what JSON and JavaScript can say. */
const odd: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(0, -0, -1, 1.5, 1e21, 1e308, -1e308, Number.MAX_SAFE_INTEGER + 2, 2 ** 31, 2 ** 32, 32_768, 32_769),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

/** Any JSON value. */
const json: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    nasty,
    odd,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(nasty, tie("value"), { maxKeys: 4 }),
  ),
})).value;

/** A change of one member somewhere in an object. */
type Change = { where: readonly number[]; what: { drop: true } | { put: unknown } | { add: string; value: unknown } };

const change: fc.Arbitrary<Change> = fc.record({
  where: fc.array(fc.nat(7), { minLength: 1, maxLength: 3 }),
  what: fc.oneof(fc.record({ drop: fc.constant(true as const) }), fc.record({ put: json }), fc.record({ add: nasty, value: json })),
});

/** Values like the given ones, with up to three changes: what is nearly right gets furthest. */
export function nearly(samples: readonly object[]): fc.Arbitrary<unknown> {
  return fc.tuple(fc.constantFrom(...samples), fc.oneof(fc.constant<Change[]>([]), fc.array(change, { maxLength: 3 }))).map(([sample, changes]) => {
    let value: unknown = structuredClone(sample);
    for (const one of changes) value = changed(value, one.where, one.what);
    return value;
  });
}

function changed(value: unknown, [first = 0, ...rest]: readonly number[], what: Change["what"]): unknown {
  if (typeof value !== "object" || value === null) return "put" in what ? what.put : value;
  const entries = Object.entries(value);
  const at = entries.length === 0 ? 0 : first % entries.length;
  const [name, member] = entries[at] ?? ["", undefined];
  let next = entries;
  if (rest.length > 0 && typeof member === "object" && member !== null) next = entries.with(at, [name, changed(member, rest, what)]);
  else if ("drop" in what) next = entries.toSpliced(at, 1);
  else if ("add" in what) next = [...entries, [what.add, what.value]];
  else if (entries.length > 0) next = entries.with(at, [name, what.put]);
  return Array.isArray(value) ? next.map(([, element]) => element) : Object.fromEntries(next);
}

/** JSON text of a value, or text that only looks like it. */
export function written(value: unknown): fc.Arbitrary<string> {
  const text = JSON.stringify(value) ?? "null";
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant(text) },
    { weight: 1, arbitrary: fc.nat(text.length).map((cut) => text.slice(0, cut)) },
    { weight: 1, arbitrary: fc.constant(`\u{feff}${text}`) },
    { weight: 1, arbitrary: fc.constant(text.replace(/:(".*?"|\d+)/, ":1e400")) },
    { weight: 1, arbitrary: fc.constant(text.replace("{", '{"user_id":"twice",')) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 3_000 }).map((depth) => `${"[".repeat(depth)}${text}${"]".repeat(depth)}`) },
    { weight: 1, arbitrary: fc.constant(text.replaceAll('"', "'")) },
  );
}
