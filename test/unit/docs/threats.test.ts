import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { has, type NamedTest } from "./support/named-test.ts";

/** A row of docs/threats.md: its number, and what it names as proof. */
type Row = { number: number; named: NamedTest[] };

const rows: Row[] = readFileSync("docs/threats.md", "utf8")
  .split("\n")
  .filter((line) => /^\| \d/.test(line))
  .map((line) => {
    const [, number, , , shown = ""] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const named = shown.split("<br>").map((entry) => {
      const [file = "", title = ""] = entry.split(" › ");
      return { file: file.replaceAll("`", ""), title: title.replaceAll("\\|", "|") };
    });
    return { number: Number(number), named };
  });

describe("docs/threats.md", () => {
  test("numbers its rows without a gap, and each names a proof", () => {
    expect(rows.map(({ number }) => number)).toEqual(rows.map((_, index) => index + 1));
    expect(rows.length).toBeGreaterThan(58);
    for (const { number, named } of rows) expect(named.length, `row ${number}`).toBeGreaterThan(0);
  });

  test("names only tests and sentences that are there", () => {
    expect(rows.flatMap(({ number, named }) => named.filter((proof) => !has(proof)).map(({ file, title }) => `${number}: ${file} › ${title}`))).toEqual([]);
  });

  test("is checked by a search that finds what is there and nothing else", () => {
    const file = "unit/docs/threats.test.ts";
    expect(has({ file, title: "is checked by a search that finds what is there and nothing else" })).toBe(true);
    expect(has({ file, title: "names only tests and sentences" })).toBe(false);
    expect(has({ file: "unit/docs/nothing.test.ts", title: "names only tests and sentences that are there" })).toBe(false);
  });
});
