import vader from "vader-sentiment";

/** VADER's normalised sum over `text`, −1..1; 0 where it knows no word. Quadratic in parts: give it sentences, not texts. */
export function compoundOf(text: string): number {
  return vader.SentimentIntensityAnalyzer.polarity_scores(text).compound;
}
