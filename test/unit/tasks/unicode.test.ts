import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runTask } from "../../../src/tasks/index.ts";
import { replaceNewCharacters } from "../../../src/tasks/unicode.ts";

// U+2EBF0 is a letter since Unicode 15.1, U+1C89 an upper-case one since 16.0, U+0378 is none yet.
const YOUNG = "\u{2ebf0}\u1c89\u0378";

describe("[RC2] outputs do not depend on the engine's Unicode tables", () => {
  test("a character that is newer than Unicode 14 does not count as a letter, and is returned unchanged", () => {
    expect(runTask("summarize", YOUNG)).toEqual({ summary: "", word_count: 0 });
    expect(runTask("summarize", `The lake ${YOUNG} is deep.`)).toEqual({ summary: `The lake ${YOUNG} is deep.`, word_count: 4 });
    expect(runTask("extract_json", `{"${YOUNG}": ["${YOUNG}", {"a": "${YOUNG}"}]}`)).toEqual({
      extracted: [{ [YOUNG]: [YOUNG, { a: YOUNG }] }],
      count: 1,
    });
  });

  test("a private-use character of the text is not confused with our placeholder", () => {
    const text = `\ue000\u1c89\u{f0000}\u{2ebf0}`;
    const { text: plain, restore } = replaceNewCharacters(text);
    expect(plain).not.toMatch(/[\u1c89\u{2ebf0}]/u);
    expect(plain).toHaveLength(text.length);
    expect(restore(plain)).toBe(text);
  });

  test("any text is returned unchanged", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const { text: plain, restore } = replaceNewCharacters(text);
        expect(restore(plain)).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  test("characters of Unicode 14 are not replaced", () => {
    const text = "Grüße, 日本語, हिन्दी, العربية, 😀🫠 ₿";
    expect(replaceNewCharacters(text).text).toBe(text);
  });
});
