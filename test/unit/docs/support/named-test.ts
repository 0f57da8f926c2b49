import { existsSync, readFileSync } from "node:fs";

/** A test that a document names: its file below test/, and its title. Or a sentence of SECURITY.md. */
export type NamedTest = { file: string; title: string };

/** Whether a test file has a test of this title, or a document this text. */
export function has({ file, title }: NamedTest): boolean {
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
