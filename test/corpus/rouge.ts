/** How alike a summary and a reference are: F1 of shared words, shared word pairs, and longest common run of words in order. */
export type Rouge = { one: number; two: number; l: number };

/** ROUGE-1, -2 and -L as F1 over lower-case words, nothing stemmed or left out. Source: Lin 2004, "ROUGE". */
export function rouge(summary: string, reference: string): Rouge {
  const a = wordsOf(summary);
  const b = wordsOf(reference);
  return { one: overlap(a, b), two: overlap(pairsOf(a), pairsOf(b)), l: f1(longestCommon(a, b), a.length, b.length) };
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

function pairsOf(words: readonly string[]): string[] {
  return words.slice(1).map((word, i) => `${words[i]} ${word}`);
}

function overlap(a: readonly string[], b: readonly string[]): number {
  const left = new Map<string, number>();
  for (const term of b) left.set(term, (left.get(term) ?? 0) + 1);
  let shared = 0;
  for (const term of a) {
    const count = left.get(term) ?? 0;
    if (count === 0) continue;
    shared++;
    left.set(term, count - 1);
  }
  return f1(shared, a.length, b.length);
}

function longestCommon(a: readonly string[], b: readonly string[]): number {
  let row = [0, ...b.map(() => 0)];
  for (const word of a) {
    const next = [0];
    b.forEach((other, j) => next.push(word === other ? (row[j] ?? 0) + 1 : Math.max(row[j + 1] ?? 0, next[j] ?? 0)));
    row = next;
  }
  return row.at(-1) ?? 0;
}

function f1(shared: number, a: number, b: number): number {
  return a + b === 0 ? 0 : (2 * shared) / (a + b);
}
