import { disableErrorLogging, parse as parseWithBestEffort } from "best-effort-json-parser";
import { jsonrepair } from "jsonrepair";
import lexrank from "lexrank.js";
import Sentiment from "sentiment";
import tsTextRank from "ts-textrank";
import vader from "vader-sentiment";
import { sentencesOf } from "../../src/tasks/segmentation.ts";
import type { Sentiment as Label } from "./corpus.ts";

/** Libraries that the engine is measured against, by name; each answers in the engine's terms, with its usual settings. */
export const CLASSIFIERS: Readonly<Record<string, (text: string) => Label>> = {
  "vader-sentiment": (text) => {
    // The thresholds that its authors give.
    const { compound } = vader.SentimentIntensityAnalyzer.polarity_scores(text);
    return compound >= 0.05 ? "positive" : compound <= -0.05 ? "negative" : "neutral";
  },
  "sentiment (AFINN)": (text) => {
    const { score } = new Sentiment().analyze(text);
    return score > 0 ? "positive" : score < 0 ? "negative" : "neutral";
  },
};

/** Summaries of `count` sentences. The last two are no libraries, but hard to beat. */
export const SUMMARIZERS: Readonly<Record<string, (text: string, count: number) => string>> = {
  "ts-textrank": (text, count) => {
    const { AbsoluteSummarizerConfig, DefaultTextParser, NullLogger, SorensenDiceSimilarity, Summarizer } = tsTextRank;
    const config = new AbsoluteSummarizerConfig(count, new SorensenDiceSimilarity(), new DefaultTextParser(), 0.85, Summarizer.SORT_OCCURENCE);
    return new Summarizer(config, new NullLogger()).summarize(text, "en").join(" ");
  },
  "lexrank.js": (text, count) =>
    lexrank(text)
      .flat()
      .sort((a, b) => b.weight - a.weight)
      .slice(0, count)
      .sort((a, b) => a.index - b.index)
      .map((sentence) => sentence.text)
      .join(" "),
  "first sentences": (text, count) => sentencesOf(oneParagraph(text)).slice(0, count).join(" "),
  "longest sentences": (text, count) => {
    const sentences = sentencesOf(oneParagraph(text));
    const longest = new Set([...sentences].sort((a, b) => b.length - a.length).slice(0, count));
    return sentences.filter((sentence) => longest.has(sentence)).join(" ");
  },
};

// It would log every text that is not all JSON.
disableErrorLogging();
parseWithBestEffort.onExtraToken = () => undefined;

/** Objects found. Neither library looks for JSON in a text: both are given the text from its first bracket on. */
export const EXTRACTORS: Readonly<Record<string, (text: string) => Record<string, unknown>[]>> = {
  jsonrepair: (text) => objectsFrom(() => JSON.parse(jsonrepair(fromBracket(text)))),
  "best-effort-json": (text) => objectsFrom(() => parseWithBestEffort(fromBracket(text))),
};

function oneParagraph(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

function fromBracket(text: string): string {
  return text.slice(Math.max(0, text.search(/[[{]/)));
}

function objectsFrom(parse: () => unknown): Record<string, unknown>[] {
  try {
    const value = parse();
    return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "object" && item !== null && !Array.isArray(item));
  } catch {
    return [];
  }
}
