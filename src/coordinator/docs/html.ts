/** Text as it must stand in HTML, in attributes too. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** One line of the Markdown that descriptions use: text and `code`. */
export function inline(markdown: string): string {
  return escapeHtml(markdown).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

/** Paragraphs and lists of the Markdown that descriptions use. */
export function blocks(markdown: string): string {
  return markdown
    .trim()
    .split(/\n{2,}/)
    .map((block) => {
      const lines = block.split("\n");
      if (!lines.every((line) => line.startsWith("- "))) return `<p>${inline(block)}</p>`;
      return `<ul>${lines.map((line) => `<li>${inline(line.slice(2))}</li>`).join("")}</ul>`;
    })
    .join("\n");
}

/** A block of code that scrolls, by keyboard too. */
export function code(text: string, label: string): string {
  return `<pre tabindex="0" aria-label="${escapeHtml(label)}"><code>${escapeHtml(text)}</code></pre>`;
}

/** A table; cells are HTML already. */
export function table(columns: string[], rows: string[][]): string {
  const head = columns.map((column) => `<th scope="col">${column}</th>`).join("");
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("\n");
  return `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>\n${body}\n</tbody></table></div>`;
}
