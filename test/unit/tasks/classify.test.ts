import { describe, expect, test } from "vitest";
import { classify } from "../../../src/tasks/classify.ts";

describe("classify", () => {
  test.each([
    ["I love this garden!", "positive"],
    ["This is a horrible mess.", "negative"],
    ["The lid is made of tin.", "neutral"],
    ["Not bad.", "positive"],
    ["I can’t thank them enough.", "positive"],
    ["Not worth the price.", "negative"],
    ["Oh great, the lift is down again.", "negative"],
    ["The kitchen lacks a window.", "negative"],
    ["Adds support for arm64 and fixes a crash.", "neutral"],
    ["v2.0.1 fixes a critical error", "neutral"],
    ["Best regards, Ivo", "neutral"],
    ["The village is literate.", "neutral"],
    ["My order arrived on time.", "positive"],
    ["The package arrived on Tuesday.", "neutral"],
    ["My order never arrived.", "negative"],
    ["The parcel has still not arrived.", "negative"],
    ["Half the parts were missing.", "negative"],
    ["Zero problems so far.", "positive"],
    ["No side effects.", "positive"],
    ["Zero stars.", "negative"],
    ["I can't live without it.", "positive"],
    ["It wasn't as bad as the reviews say.", "positive"],
    ["😍😍", "positive"],
    ["The lamp is dim, but I adore it.", "positive"],
  ])("%s → %s", (text, sentiment) => {
    expect(classify(text).sentiment).toBe(sentiment);
  });

  test("one positive word does not make a long report positive", () => {
    const report = "The pipe is ten metres long. ".repeat(200);
    expect(classify(`${report}It is nice.`).sentiment).toBe("neutral");
  });

  test("confidence is between 0 and 1, has four decimals, and is larger for a stronger feeling", () => {
    const mild = classify("It is good.");
    const strong = classify("It is absolutely wonderful, I love it!!!");
    expect(strong.confidence).toBeGreaterThan(mild.confidence);
    for (const { confidence } of [mild, strong, classify(""), classify("x")]) {
      expect(confidence).toBeGreaterThanOrEqual(0);
      expect(confidence).toBeLessThanOrEqual(1);
      expect(Math.round(confidence * 10_000) / 10_000).toBe(confidence);
    }
  });

  test("a language that it cannot read is neutral with little confidence", () => {
    const unread = classify("これはひどい。二度と買わない。");
    expect(unread.sentiment).toBe("neutral");
    expect(unread.confidence).toBeLessThan(0.3);
  });
});
