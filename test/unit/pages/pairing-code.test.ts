import { describe, expect, it } from "vitest";
import { editCode, readCode } from "../../../src/pages/worker/pairing-code.ts";
import { PAIRING_CODE } from "../../../src/protocol/text.ts";

describe("pairing code", () => {
  it.each([
    ["a1b2c3", "A1B2C3"],
    [" A1-B2 c3\n", "A1B2C3"],
    ["https://router.test/worker?code=a1b2c3", "A1B2C3"],
    ["https://router.test/worker?x=1&code=A1B2C3&y=2", "A1B2C3"],
    ["A1B2C3D4", "A1B2C3"],
    ["Your pairing code: 3AFFAC", "3AFFAC"],
    ["npx compute-router worker pair 3affac --url http://router.test:8787", "3AFFAC"],
    ["3AFFAC is your code. Enter 3AFFAC within one hour.", "3AFFAC"],
    ["A link of decade: https://router.test/worker?code=3AFFAC", "3AFFAC"],
    ["3AF-FAC", "3AFFAC"],
    [" 3affac\n", "3AFFAC"],
    ["3\nA\nF\nF\nA\nC\n", "3AFFAC"],
    // Two words can be the code, so nothing tells which one it is.
    ["facade 3AFFAC", "FACADE"],
    ["xyz", ""],
    ["", ""],
  ])("%j is read as %j", (text, code) => {
    expect(readCode(text)).toBe(code);
    expect(PAIRING_CODE.test(readCode(text))).toBe(code.length === 6);
  });
});

describe("an edit of the pairing code", () => {
  /** The field with `|` as its caret. */
  const edited = (field: string) => {
    const { code, caret, droppedOther } = editCode(field.replace("|", ""), field.indexOf("|"));
    return [`${code.slice(0, caret)}|${code.slice(caret)}`, droppedOther];
  };

  it.each([
    ["3AF|", "3AF|", false],
    ["3Ab|FFC", "3AB|FFC", false],
    ["|3affac", "|3AFFAC", false],
    ["3A-F |FAC", "3AF|FAC", false],
    ["3A\u2011F|FAC", "3AF|FAC", false],
    ["3Ag|FFC", "3A|FFC", true],
    ["3A.|FFC", "3A|FFC", true],
    ["3A1|FFAC", "3A1|FFA", false],
    ["3AFFAC1|", "3AFFAC|", false],
    ["Your code: 3AFFAC|, thanks", "3AFFAC|", false],
    ["https://router.test/worker?code=3affac|", "3AFFAC|", false],
  ])("%j becomes %j", (field, code, droppedOther) => {
    expect(edited(field)).toEqual([code, droppedOther]);
  });
});
