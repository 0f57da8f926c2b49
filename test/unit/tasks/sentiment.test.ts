import { describe, expect, test } from "vitest";
import { classify } from "../../../src/tasks/classify.ts";
import { NO_FEELING, valenceOf, WORDS } from "../../../src/tasks/sentiment/lexicon.ts";
import { phraseAt, PHRASES } from "../../../src/tasks/sentiment/phrases.ts";

import { valenceOfSentence } from "../../../src/tasks/sentiment/sentence.ts";
import { tokensOf } from "../../../src/tasks/sentiment/tokens.ts";

const v = valenceOfSentence;

describe("words", () => {
  test.each([
    ["loves", 3],
    ["happier", 2],
    ["stopped", -1],
    ["hating", -3],
    ["gently", 2],
    ["wind", 0],
    ["rating", 0],
    ["table", 0],
  ])("%s has %d", (word, valence) => {
    expect(valenceOf(word)).toBe(valence);
  });

  test("no word is both with and without feeling", () => {
    expect([...NO_FEELING].filter((word) => WORDS.has(word))).toEqual([]);
  });

  test("tokens: contractions, drawn-out words, emoticons, ratings", () => {
    expect(tokensOf("Cannot, dont; soooo GREAT :-) 4/5 <3").map(({ text, kind, isLoud }) => [text, kind, isLoud])).toEqual([
      ["can't", "word", false],
      [",", "stop", false],
      ["don't", "word", false],
      [";", "stop", false],
      ["soo", "word", true],
      ["great", "word", true],
      [":-)", "sign", false],
      ["4/5", "word", false],
      ["<3", "sign", false],
    ]);
  });
});

describe("phrases", () => {
  const lines = PHRASES.flatMap(([valence, list]) => list.split("\n").map((line) => ({ valence, slots: line.trim().split(/\s+/) })));

  test("every phrase begins with a word and has at least two words", () => {
    for (const { slots } of lines) {
      expect(slots[0], slots.join(" ")).toMatch(/^[^?~]/);
      expect(slots.filter((slot) => !slot.startsWith("?") && slot !== "~").length, slots.join(" ")).toBeGreaterThanOrEqual(2);
    }
  });

  test("the longest match counts; a gap has at most four words and no end of a sentence", () => {
    const at = (text: string) => phraseAt(tokensOf(text), 0);
    expect(at("can't thank these four people enough")).toEqual({ valence: 3, end: 6 });
    expect(at("can't thank you, not enough")).toBeUndefined();
    expect(at("not worth the money")).toEqual({ valence: -3, end: 4 });
  });
});

describe("context turns a word", () => {
  test.each<[string, string, string]>([
    ["negation", "It is good.", "It is not good."],
    ["negation over words between", "The staff were friendly.", "The staff were not really friendly."],
    ["what follows but", "It is slow, but I love it.", "I love it, but it is slow."],
    ["a question asks", "The room is clean.", "Is the room clean?"],
    ["a wish", "It was a great day.", "It should have been a great day."],
    ["a damper", "It is very good.", "It is somewhat good."],
    ["a concession", "The film was lovely.", "Although the film was lovely"],
    ["stars", "5/5", "1/5"],
    ["irony", "Great, it works again.", "Great, another error."],
  ])("%s", (_, warmer, colder) => {
    expect(v(warmer)).toBeGreaterThan(v(colder));
  });

  test("an exclamation mark makes a feeling stronger, positive or negative", () => {
    expect(v("This is bad!!!")).toBeLessThan(v("This is bad."));
    expect(v("This is good!!!")).toBeGreaterThan(v("This is good."));
    expect(v("The table is round!!!")).toBe(0);
  });

  test("technical prose is neutral, an opinion about it is not", () => {
    expect(v("The request fails with an error when the token is invalid.")).toBe(0);
    expect(v("My request always fails, this is a terrible mess.")).toBeLessThan(-2);
  });
});

describe("other languages", () => {
  test.each([
    ["Das Zimmer war schmutzig und das Personal leider unfreundlich.", "negative"],
    ["Ein wunderbarer Abend, und das Essen war köstlich.", "positive"],
    ["Der Zug nach Basel fährt um acht Uhr ab.", "neutral"],
    ["Die Sonne scheint.", "neutral"],
    ["Die Preise gelten ab Montag.", "neutral"],
    ["Die Lieferung kam pünktlich.", "positive"],
    ["Das Kind war fast im Bad.", "neutral"],
    ["Hell ist die Nacht.", "neutral"],
    ["Mein Handy ist neu.", "neutral"],
    ["Nie wieder!", "negative"],
    ["Das Gerät funktioniert nicht.", "negative"],
    ["Gefällt mir gar nicht.", "negative"],
    ["Je ne recommande pas ce produit.", "negative"],
    ["Je n'aime pas ce livre.", "negative"],
    ["Pas cher et très bon.", "positive"],
    ["Elle est sensible au bruit.", "neutral"],
    ["No funciona.", "negative"],
    ["Lo recomiendo mucho.", "positive"],
    ["El paquete nunca llegó.", "negative"],
    ["Le service est lent et la soupe est froide.", "negative"],
    ["Je suis très content de ce livre, il est magnifique.", "positive"],
    ["El hotel no es bueno y la comida es mala.", "negative"],
    ["Estoy muy contento con la compra y la recomiendo.", "positive"],
  ])("%s → %s", (text, sentiment) => {
    expect(classify(text).sentiment).toBe(sentiment);
  });

  test("a word that also exists in English does not decide the language", () => {
    expect(classify("No complaints!").sentiment).toBe("positive");
    expect(classify("Amazing crème brûlée").sentiment).toBe("positive");
    expect(classify("I would rather die.").sentiment).toBe("negative");
  });
});
