import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { VisibleText } from "../../../src/worker/runtimes/answer.ts";

function visible(pieces: readonly string[]): { text: string; pieces: string[] } {
  const filter = new VisibleText();
  const shown = [...pieces.map((piece) => filter.push(piece)), filter.end()];
  return { text: shown.join(""), pieces: shown };
}

const CASES: [title: string, output: string, text: string][] = [
  ["no block", "Hello <b>you</b>", "Hello <b>you</b>"],
  ["a first block and the space after it", "<think>\nhm, 2 < 3\n</think>\n\nYes.", "Yes."],
  ["space before a first block", "\n <think>x</think> Yes.", "Yes."],
  ["an empty block", "<think></think>Yes.", "Yes."],
  ["a later block", "One <think>x</think>two", "One two"],
  ["two first blocks", "<think>a</think>\n<think>b</think>\nYes.", "Yes."],
  ["a block that never closes", "<think>I wonder </thin", ""],
  ["the mere word later on", "Write <think> to think.", "Write <think> to think."],
  ["the beginning of a tag", "a <thin", "a <thin"],
  ["only the beginning of a tag", "<", "<"],
  ["a doubled bracket", "<<think>x</think>y", "<y"],
  ["a tag in a block", "<think><think>x</think>y", "y"],
  ["leading space is kept", "  code", "  code"],
  ["only space", " \n", " \n"],
  ["a pair of surrogates", "a😀<think>😀</think>b😀", "a😀b😀"],
  ["half a pair", "a\uD83D", "a\uFFFD"],
  ["two halves with a block between them", "\uD83D<think>x</think>\uDE00", "\uFFFD\uFFFD"],
];

describe("VisibleText", () => {
  it.each(CASES)("[LLM2] %s, cut at every place", (_title, output, text) => {
    expect(visible([output]).text).toBe(text);
    expect(visible([...Array(output.length).keys()].map((at) => output.charAt(at))).text).toBe(text);
    for (let at = 1; at < output.length; at += 1) expect(visible([output.slice(0, at), output.slice(at)]).text).toBe(text);
  });

  it("[LLM2] shows text as soon as it is certain", () => {
    const filter = new VisibleText();
    expect(["Hel", "lo <", "b> ", "😀".charAt(0), "😀".charAt(1)].map((piece) => filter.push(piece))).toEqual(["Hel", "lo ", "<b> ", "", "😀"]);
  });

  it("[LLM2] the text is the same and well-formed, however it is cut into pieces", () => {
    const words = fc.constantFrom("<think>", "</think>", "<", "think>", " ", "\n", "a", "😀", "\uD83D", "\uDE00", "</");
    fc.assert(
      fc.property(fc.array(words, { maxLength: 12 }), fc.array(fc.nat(60), { maxLength: 8 }), (parts, cuts) => {
        const output = parts.join("");
        const places = [0, ...cuts.filter((cut) => cut < output.length).toSorted((a, b) => a - b), output.length];
        const pieces = places.slice(1).map((end, index) => output.slice(places[index], end));
        const cut = visible(pieces);
        expect(cut.text).toBe(visible([output]).text);
        for (const piece of cut.pieces) expect(piece.isWellFormed()).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});
