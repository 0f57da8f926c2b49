// These libraries ship no types; this is the part that the comparison uses.
declare module "vader-sentiment" {
  const vader: { SentimentIntensityAnalyzer: { polarity_scores(text: string): { compound: number } } };
  export default vader;
}

declare module "sentiment" {
  export default class Sentiment {
    analyze(text: string): { score: number };
  }
}

declare module "lexrank.js" {
  /** Paragraphs of sentences, each with its weight and its place in the text. */
  export default function lexrank(text: string): { weight: number; text: string; index: number }[][];
}
