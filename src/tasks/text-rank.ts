// Ranks sentences by how much they have in common with the others. Summarize selects by this rank.
const ITERATIONS = 30;
const DAMPING = 0.85;
// Scores are compared as integers, so that rounding in two JavaScript engines cannot give two different orders.
const SCALE = 1_000_000;

/** The sentences as sparse unit vectors; each term of the text is one dimension. */
export type SentenceVectors = { readonly rows: ReadonlyArray<ReadonlyArray<readonly [term: number, weight: number]>>; readonly terms: number };

/** Turns the terms of each sentence into a unit vector. A term weighs more if fewer sentences have it. */
export function vectorsOf(sentences: readonly (readonly string[])[]): SentenceVectors {
  const ids = new Map<string, number>();
  const sentenceCounts: number[] = [];
  const counted = sentences.map((terms) => {
    const counts = new Map<number, number>();
    for (const term of terms) {
      let id = ids.get(term);
      if (id === undefined) ids.set(term, (id = ids.size));
      const count = counts.get(id) ?? 0;
      if (count === 0) sentenceCounts[id] = (sentenceCounts[id] ?? 0) + 1;
      counts.set(id, count + 1);
    }
    return counts;
  });
  const rows = counted.map((counts) => {
    let squares = 0;
    const row: [number, number][] = [];
    for (const [id, count] of counts) {
      // A square root in place of the usual logarithm: engines may round a logarithm differently, but not a square root.
      const weight = count * Math.sqrt(sentences.length / (sentenceCounts[id] ?? 1));
      squares += weight * weight;
      row.push([id, weight]);
    }
    const length = Math.sqrt(squares);
    return row.map(([id, weight]) => [id, weight / length] as const);
  });
  return { rows, terms: ids.size };
}

/**
 * TextRank: a sentence ranks high if it is similar to many sentences that rank high. Ranks are integers with a mean of about
 * 1,000,000. The similarity matrix S = A·Aᵀ is never computed: each step multiplies by Aᵀ and then by A. So the cost grows
 * with the number of words and not with the square of the number of sentences.
 */
export function textRank({ rows, terms }: SentenceVectors): number[] {
  const n = rows.length;
  const neighbours = (values: readonly number[]): number[] => {
    const byTerm = new Float64Array(terms);
    rows.forEach((row, i) => {
      for (const [term, weight] of row) byTerm[term] = (byTerm[term] ?? 0) + weight * (values[i] ?? 0);
    });
    return rows.map((row, i) => {
      let sum = 0;
      for (const [term, weight] of row) sum += weight * (byTerm[term] ?? 0);
      // The similarity of a sentence to itself is exactly 1 and must not count.
      return row.length === 0 ? 0 : Math.max(0, sum - (values[i] ?? 0));
    });
  };
  const degrees = neighbours(rows.map(() => 1));
  let ranks = rows.map(() => 1);
  for (let step = 0; step < ITERATIONS; step++) {
    const shares = ranks.map((rank, i) => ((degrees[i] ?? 0) > 1e-6 ? rank / (degrees[i] ?? 1) : 0));
    ranks = neighbours(shares).map((received) => 1 - DAMPING + DAMPING * received);
  }
  return ranks.map((rank) => Math.round((n === 0 ? 0 : rank) * SCALE));
}

/** The cosine similarities of sentence `a` with every sentence, 0..1. */
export function similaritiesTo({ rows }: SentenceVectors, a: number): number[] {
  const weights = new Map(rows[a] ?? []);
  return rows.map((row) => {
    let sum = 0;
    for (const [term, weight] of row) sum += weight * (weights.get(term) ?? 0);
    return sum;
  });
}
