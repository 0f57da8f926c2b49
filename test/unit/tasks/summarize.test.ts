import { describe, expect, test } from "vitest";
import { countWords, sentencesOf, unitsOf } from "../../../src/tasks/segmentation.ts";
import { summarize } from "../../../src/tasks/summarize.ts";

describe("sentences", () => {
  test.each([
    ["abbreviations", "Dr. Weiss met Mr. Bo, e.g. on Monday. It was 3.5 km away.", 2],
    ["initials", "J. R. Moss wrote it. So did I. We know.", 3],
    ["numbered things", "See no. 7 and fig. 12 below. The end.", 2],
    ["names of firms that end a sentence", "She works at Orbit Inc. He does not.", 2],
    ["closing marks", 'He said "stop!" and left. (She stayed.) Why?', 3],
    ["ellipsis within a sentence", "Well... maybe later. Or not.", 2],
    ["wide stops without spaces", "今日は晴れです。明日は雨でしょう！本当ですか？", 3],
    ["Hindi and Arabic stops", "यह पहला है। यह दूसरा है।", 2],
    ["addresses and versions", "Open docs.example.org/a.b and install v1.2.3 now. Done.", 2],
  ])("splits %s", (_, text, count) => {
    expect(sentencesOf(text)).toHaveLength(count);
    expect(sentencesOf(text).join("").replace(/\s/g, "")).toBe(text.replace(/\s/g, ""));
  });

  test("reads wrapped lines as one paragraph, list items and headings as units", () => {
    const text =
      "# Plan\n\nThis paragraph is wrapped by an editor at a fixed width of columns,\nand goes on here.\n\n- buy nails\n- [x] paint the\n  fence\n1. call Ida\n\n```\ncode();\n```\n";
    expect(unitsOf(text)).toEqual([
      { kind: "heading", text: "Plan" },
      { kind: "sentence", text: "This paragraph is wrapped by an editor at a fixed width of columns, and goes on here." },
      { kind: "item", text: "buy nails" },
      { kind: "item", text: "paint the fence" },
      { kind: "item", text: "call Ida" },
    ]);
  });
});

describe("summarize", () => {
  test("a single sentence is its own summary", () => {
    expect(summarize("The ferry leaves at six.")).toEqual({ summary: "The ferry leaves at six.", word_count: 5 });
  });

  test("text without a sentence, and without a letter", () => {
    expect(summarize("ferry timetable winter")).toEqual({ summary: "ferry timetable winter", word_count: 3 });
    expect(summarize("?! … 🎉")).toEqual({ summary: "", word_count: 0 });
    expect(summarize("")).toEqual({ summary: "", word_count: 0 });
  });

  test("keeps the order of the text and takes about a third of it", () => {
    const text =
      "The dam of the lake is leaking. Ducks swim. Engineers found that the leak in the dam grows each week. Lunch was late. The dam will be drained and the leak closed in May. Tea is nice.";
    expect(summarize(text).summary).toBe("Engineers found that the leak in the dam grows each week. The dam will be drained and the leak closed in May.");
  });

  test("does not repeat a sentence", () => {
    const twin = "The old mill by the river will become a museum of clocks next year. ";
    expect(summarize(`${twin.repeat(9)}Its wheel turns again.`).summary.split("museum")).toHaveLength(2);
  });

  test("list items are separated by a full stop", () => {
    const { summary } = summarize(
      "- repair the water pump in the cellar\n- order a new water pump\n- paint\n- call the pump maker about the water pump\n- x\n- y",
    );
    expect(summary).toMatch(/^[^.]+\. [^.]+\.$/);
  });

  test("an endless line is cut at a word, never inside a character", () => {
    const words = summarize("lorem ipsum dolor ".repeat(1000)).summary;
    expect(words.length).toBeLessThanOrEqual(401);
    expect(words).toMatch(/(?:lorem|ipsum|dolor)…$/);
    expect(summarize(`x${"𝒜".repeat(1000)}`).summary.isWellFormed()).toBe(true);
  });

  test("a mail is summarized without greeting and signature; its subject says what is important", () => {
    const { summary } = summarize(
      "From: Ada\nTo: all\nSubject: Move of the archive\n\nHi all,\n\nI hope you had a good weekend. The archive moves to the new building on 4 May. The canteen has soup. Boxes for the archive must be labelled by Friday. My bike was stolen. Somebody sang.\n\nKind regards,\nAda",
    );
    expect(summary).toContain("The archive moves to the new building on 4 May.");
    expect(summary).toContain("Boxes for the archive must be labelled by Friday.");
    expect(summary).not.toMatch(/From:|Hi all|good weekend|regards|Ada/);
  });

  test("lines of a chat stay separate and keep their speaker", () => {
    const chat =
      "mia: did the courier bring the green paint for the garden fence yesterday?\ntom: no\nmia: hm\ntom: the courier brings the green paint for the fence on Monday at nine";
    expect(unitsOf(chat)).toHaveLength(4);
    expect(summarize(chat).summary).toMatch(/tom: the courier brings the green paint for the fence on Monday at nine\.$/);
    expect(unitsOf("Name: Ada Lovelace\nCity: London\nYear: 1815").every(({ kind }) => kind === "sentence")).toBe(true);
  });

  test("a sentence that refers to a sentence that was left out loses its connecting word", () => {
    const { summary } = summarize(
      "Tea is nice. However, the council will close the bridge in June because its pillars are cracked. Ducks swim. Cats sleep. The bridge will open again when new pillars carry it. Dogs bark.",
    );
    expect(summary).toBe("The council will close the bridge in June because its pillars are cracked. The bridge will open again when new pillars carry it.");
  });

  test("word_count counts the words of the summary; don't, well-known and 3.5 are one word each", () => {
    expect(countWords("Don't stop: 3.5 well-known हिन्दी words — 1,000 of them…")).toBe(9);
    const { summary, word_count } = summarize("One two three. ".repeat(50));
    expect(word_count).toBe(countWords(summary));
  });
});
