// vader-sentiment 1.1.3 ships no types; this is the part we use.
declare module "vader-sentiment" {
  /** Shares of the words that are negative, neutral and positive, and their normalised sum, −1..1. */
  export type PolarityScores = { neg: number; neu: number; pos: number; compound: number };
  // A CommonJS bundle: only its default import exists in every loader and bundler.
  const vader: { SentimentIntensityAnalyzer: { polarity_scores(text: string): PolarityScores } };
  export default vader;
}
