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

  test("a German ordinal or abbreviation ends no sentence", () => {
    expect(sentencesOf("Ab dem 3. Juni ist z. B. die Straße für 1,2 Mio. Euro gesperrt. Am 10. ist sie frei.")).toHaveLength(2);
    expect(sentencesOf("It costs 30. Then it rose.")).toHaveLength(2);
  });

  test("each line of a log is one unit; an error counts more than what happens all the time", () => {
    const log = ["10:00:01 INFO  health check of the service is ok", "10:00:02 ERROR connection to the payment gateway timed out"];
    log.push("10:00:03 INFO  health check of the service is ok", "10:00:04 INFO  health check of the service is ok");
    expect(unitsOf(log.join("\n"))).toHaveLength(4);
    expect(summarize(log.join("\n")).summary).toContain("payment gateway");
  });

  test("the mail that a mail answers is left out", () => {
    const mail =
      "Tuesday at ten suits me, I will bring the figures.\n\nOn Mon, 3 June 2024, Tom Hill <tom@x.example> wrote:\n> Can we meet?\n> I need the figures.";
    expect(summarize(mail).summary).toBe("Tuesday at ten suits me, I will bring the figures.");
    expect(summarize("> Back up the data before you upgrade.").summary).toBe("Back up the data before you upgrade.");
  });

  test("marks of Markdown are left out: images, addresses of links, emphasis, check boxes", () => {
    expect(summarize("![banner](https://x.example/a.png) The *new* search ([details](https://x.example/b)) saves 40 % of the time.").summary).toBe(
      "The new search (details) saves 40 % of the time.",
    );
    expect(summarize("[ ] send the tax documents").summary).toBe("send the tax documents");
  });

  test("notes without full stops: each line is a sentence", () => {
    expect(unitsOf("battery lasts three hours\ncalled support four times\nwant to return it")).toHaveLength(3);
  });

  test("a sentence keeps the case of its first letter, unless a word before it was cut", () => {
    const about = (start: string) =>
      `Lunch was late.\n\nThe soup was cold.\n\n${start}Phone sales fell by 12 percent because the price was increased in March.`;
    expect(summarize(about("i")).summary).toContain("iPhone sales");
    expect(summarize(about("But p")).summary).toContain("Phone sales");
  });

  test("a sentence of two words is not the summary of a review", () => {
    const review =
      "I stayed here for 3 nights with my wife. First of all, the location is great, right by the beach. But the room! It smelled of damp and the shower didn't drain. We asked for another room, and the lady at the desk was really nice and moved us on the second day. The new room was fine. Breakfast was OK, nothing special. WiFi only worked in the lobby. Would I come back? Maybe, if they fix the rooms on the ground floor.";
    expect(summarize(review).summary).not.toContain("The room!");
  });

  test("a text without punctuation is shortened too: its best parts are chosen, and an ellipsis stands for the others", () => {
    const start = "i went to the market in the morning and saw my friend there and she told me about her garden and her dog ".repeat(3);
    const { summary } = summarize(
      `${start}and then the council decided to close the bridge until 12 June because the repair will cost 48 million euros and buses must use the other bridge`,
    );
    expect(summary).toContain("48 million euros");
    expect(summary).toMatch(/…/);
    expect(summary.length).toBeLessThan(400);
  });

  test("the tags, scripts and styles of HTML are left out", () => {
    const html =
      "<html><style>p{color:red}</style><body><h1>Bridge</h1><p>The old bridge is <b>closed</b> from Monday.</p><script>var x=1;</script></body></html>";
    expect(summarize(html).summary).toBe("The old bridge is closed from Monday.");
    expect(unitsOf("<p>Hi &amp; hello to you all.</p><p>It rains.</p>").map(({ text }) => text)).toEqual(["Hi & hello to you all.", "It rains."]);
  });

  test("the numbers and times of subtitles are left out", () => {
    const subtitles = "1\n00:00:01,000 --> 00:00:04,000\nToday I show you how\n\n2\n00:00:04,500 --> 00:00:08,000\nto repair a tyre.\n";
    expect(summarize(subtitles).summary).toBe("Today I show you how to repair a tyre.");
  });

  test("a chat with a date in each line is a chat", () => {
    const chat = ["Mia: Still on for Saturday?", "Ben: Yes, at ten", "Mia: How much?", "Ben: 18 euros"].map((turn, i) => `12/05/2024, 09:1${i} - ${turn}`);
    expect(unitsOf(chat.join("\n")).map(({ kind }) => kind)).toEqual(["turn", "turn", "turn", "turn"]);
  });

  test("a stack trace keeps its error", () => {
    const trace = 'Traceback (most recent call last):\n  File "/app/main.py", line 42, in <module>\n    run()\n  File "/app/run.py", line 17, in run\n';
    expect(summarize(`${trace}ValueError: the price of order 12 is empty`).summary).toContain("ValueError");
  });

  test("titles without full stops are one unit each, also if one of them is long", () => {
    expect(unitsOf("a1b2c3d Fix a crash when the config file is empty\nd4e5f6a Add dark mode\nb7c8d9e Speed up search")).toHaveLength(3);
    const wrapped = "the machine stopped because the belt of line two\nbroke and nobody had ordered another belt before\nthe summer";
    expect(unitsOf(wrapped)).toHaveLength(1);
  });

  test("numbered clauses in one line are split at their sentences", () => {
    const clauses = `1. ${"The Seller delivers the Goods within thirty days after the Order. 2. The Buyer pays within ten days after the delivery. ".repeat(4)}`;
    expect(unitsOf(clauses)).toHaveLength(8);
  });

  test("in another script than Latin, the beginning of a report is a part of its summary", () => {
    const report =
      "सरकार ने सोमवार को घोषणा की कि नई रेल लाइन अगले साल मार्च में शुरू होगी। इस पर 1200 करोड़ रुपये खर्च होंगे। यात्रियों को अब दो घंटे कम लगेंगे। कुछ किसानों ने जमीन के मुआवजे पर विरोध किया है। मंत्री ने कहा कि बातचीत जारी है।";
    expect(summarize(report).summary).toMatch(/^सरकार/);
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
