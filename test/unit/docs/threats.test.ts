import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

/** A row of docs/threats.md: its number, and what it names as proof. */
type Row = { number: number; named: { file: string; title: string }[] };

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

/** Whether a test file has a test of this title, or a document this text. */
function has({ file, title }: Row["named"][number]): boolean {
  if (title.length < 10) return false;
  if (file === "SECURITY.md") return flat(readFileSync(file, "utf8")).includes(title);
  if (!existsSync(`test/${file}`)) return false;
  const source = readFileSync(`test/${file}`, "utf8");
  // Behind the parenthesis of `test(`, `it(` or `test.each(…)(`; the formatter may have put a line end between.
  return ['"', "'", "`"].some((quote) =>
    source
      .split(`${quote}${title}${quote}`)
      .slice(0, -1)
      .some((before) => /\(\s*$/.test(before)),
  );
}

function flat(text: string): string {
  return text.replaceAll(/\s+/g, " ");
}

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
