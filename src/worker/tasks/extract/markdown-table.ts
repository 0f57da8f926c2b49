import type { Table } from "./table.ts";

/** All Markdown tables of a text given as lines: a row of cells, a row of dashes, and rows as long as there are bars. */
export function markdownTables(lines: readonly string[]): Table[] {
  const tables: Table[] = [];
  for (let i = 1; i < lines.length; i++) {
    if (!isRule(lines[i] ?? "")) continue;
    const header = cellsOf(lines[i - 1] ?? "");
    if (!(lines[i - 1] ?? "").includes("|") || header.every((cell) => cell === "") || header.length !== cellsOf(lines[i] ?? "").length) continue;
    const from = i - 1;
    const rows: string[][] = [];
    for (i++; i < lines.length && (lines[i] ?? "").includes("|") && !isRule(lines[i + 1] ?? ""); i++) rows.push(cellsOf(lines[i] ?? ""));
    tables.push({ header, rows, from, to: i });
  }
  return tables;
}

function isRule(line: string): boolean {
  return line.includes("-") && line.includes("|") && cellsOf(line).every((cell) => /^:?-+:?$/.test(cell));
}

function cellsOf(line: string): string[] {
  let inside = line.trim();
  if (inside.startsWith("|")) inside = inside.slice(1);
  if (inside.endsWith("|") && !inside.endsWith("\\|")) inside = inside.slice(0, -1);
  const cells: string[] = [];
  let cell = "";
  for (let i = 0; i < inside.length; i++) {
    const char = inside[i] ?? "";
    if (char === "\\" && inside[i + 1] === "|") {
      cell += "|";
      i++;
    } else if (char === "|") {
      cells.push(cell.trim());
      cell = "";
    } else cell += char;
  }
  return [...cells, cell.trim()];
}
