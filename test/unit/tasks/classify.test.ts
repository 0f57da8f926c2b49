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

  test.each([
    [":)", "positive"],
    [":-(", "negative"],
    [":'(", "negative"],
    ["^_^", "positive"],
    ["<3", "positive"],
    ["👍🏽", "positive"],
    ["😭", "negative"],
    ["The parcel is here :)", "positive"],
    ["No parcel yet :(", "negative"],
    ["Done:)", "positive"],
    ["Das Paket ist da :(", "negative"],
    ["Il pacco è arrivato :)", "positive"],
    ["荷物が届きました😊", "positive"],
    ["★★★★★", "positive"],
    ["★☆☆☆☆", "negative"],
    ["⭐⭐", "negative"],
    ["1.5/5", "negative"],
    ["4 out of 5", "positive"],
    ['{"a":[],"b":[1]}', "neutral"],
    ["The list (see below): a, b", "neutral"],
    ["list =[] and https://example.com/a", "neutral"],
  ])("signs: %s → %s", (text, sentiment) => {
    expect(classify(text).sentiment).toBe(sentiment);
  });

  test.each([
    ["I have never been so disappointed.", "negative"],
    ["Couldn't be more disappointed.", "negative"],
    ["I don't think this is good.", "negative"],
    ["There is nothing I don't like about it.", "positive"],
    ["There is nothing I like about it.", "negative"],
    ["No one was helpful.", "negative"],
    ["It failed to impress.", "negative"],
    ["It never fails to impress.", "positive"],
    ["Neither the food nor the service was good.", "negative"],
    ["Less comfortable than I expected.", "negative"],
    ["It does not fit and did not arrive on time.", "negative"],
    ["My old phone was better than this one.", "negative"],
    ["This phone is better than my old one.", "positive"],
    ["There are better options for the price.", "negative"],
    ["It could have been so much better.", "negative"],
    ["Used to be good.", "negative"],
    ["this is so bad lol", "negative"],
    ["Inflation fell to its lowest level in three years.", "positive"],
    ["It keeps asking me for my password.", "negative"],
    ["Breakfast is served on the ground floor.", "neutral"],
    ["ok see you at the station", "neutral"],
    ["Not too salty, just right.", "positive"],
    ["I don't understand how anyone could dislike this.", "positive"],
    ["All passengers survived the accident.", "positive"],
    ["Could you please send me the invoice? Thanks, Anna", "neutral"],
    ["Thanks, that fixed it!", "positive"],
    ["Please, for the love of God, fix the login.", "neutral"],
    ["Error: the file is missing", "neutral"],
    ["Could not be worse.", "negative"],
    ["Not once has it failed me.", "positive"],
    ["Wouldn't trade it for anything.", "positive"],
    ["How is this acceptable?", "negative"],
    ["no no no no!", "negative"],
    ["Los Angeles traffic is horrible.", "negative"],
    ["Delivery takes two to four days.", "neutral"],
  ])("%s → %s", (text, sentiment) => {
    expect(classify(text).sentiment).toBe(sentiment);
  });

  test.each([
    ["I can recommend this hotel", "positive"],
    ["We can recommend it", "positive"],
    ["Can recommend", "positive"],
    ["I do recommend it", "positive"],
    ["I could recommend it to anyone", "positive"],
    ["I will recommend coming back here", "positive"],
    ["I do not hate it", "positive"],
    ["I do not think it is bad", "positive"],
    ["I do not see any problem", "positive"],
    ["I do not have complaints", "positive"],
    ["I will not complain", "positive"],
    ["It will never let you down", "positive"],
    ["I will not hesitate to come back", "positive"],
    ["I will never forget how kind they were", "positive"],
    ["Do not refrigerate.", "neutral"],
    ["Please do not refrigerate.", "neutral"],
    ["You do not have to register.", "neutral"],
    ["You do not need a manual", "neutral"],
    ["Cookies do not contain personal data.", "neutral"],
    ["Students will never be charged for this.", "neutral"],
    ["We do not sell this item on Sundays.", "neutral"],
    ["We do not hesitate to recommend it", "positive"],
    ["I could not find any fault", "positive"],
    ["I will never forget this wonderful day", "positive"],
    ["The warranty will not cover water damage.", "neutral"],
    ["You should get a letter next week.", "neutral"],
    ["Everyone must read the manual.", "neutral"],
    ["You need to watch the temperature.", "neutral"],
    ["You need to try another cable.", "neutral"],
    ["Try this now.", "neutral"],
    ["The office will be back on Tuesday.", "neutral"],
    ["She will go back on Monday.", "neutral"],
  ])('an everyday verb with a negator, or "should" and "back", is no judgement: %s → %s', (text, sentiment) => {
    expect(classify(text).sentiment).toBe(sentiment);
  });

  test.each([
    ["Will be back!", "positive"],
    ["Would buy again.", "positive"],
    ["You have to try it", "positive"],
    ["We could not have asked for more", "positive"],
    ["I do not have a single complaint", "positive"],
    ["It does the job", "positive"],
    ["There is nothing like it", "positive"],
    ["You will not be disappointed", "positive"],
    ["I would not recommend this hotel", "negative"],
    ["I will not come back", "negative"],
    ["I don't like the smell", "negative"],
    ["I never received my order", "negative"],
    ["It does not work", "negative"],
    ["The printer won't print", "negative"],
    ["They do not answer the phone", "negative"],
    ["Nobody told us that the pool is closed", "negative"],
    ["Do not buy this product", "negative"],
    ["Not again!", "negative"],
    ["I cannot find anything wrong with it", "positive"],
    ["It never gets boring", "positive"],
    ["I would never return", "negative"],
    ["Nobody at the desk could help us.", "negative"],
    ["Please do not reply to this email.", "neutral"],
    ["Do not freeze.", "neutral"],
    ["Never touch the wires.", "neutral"],
    ["If you do not receive an email, check the spam folder.", "neutral"],
    ["You may not enter without a ticket.", "neutral"],
    ["The museum is not open on Mondays.", "neutral"],
    ["I can't come on Tuesday.", "neutral"],
    ["I do not know the address.", "neutral"],
    ["Nobody lives in that house.", "neutral"],
    ["Nothing has been decided.", "neutral"],
    ["It doesn't contain nuts", "neutral"],
    ["No parking", "neutral"],
    ["She works as a nurse.", "neutral"],
    ["Open a new tab.", "neutral"],
    ["Stay on the line.", "neutral"],
    ["Keep away from children.", "neutral"],
    ["The meeting lasts two hours.", "neutral"],
    ["Take it three times a day.", "neutral"],
    ["The form has to be signed.", "neutral"],
    ["You have to pay at the counter.", "neutral"],
    ["I need more information.", "neutral"],
    ["How do I cancel my subscription?", "neutral"],
    ["Didn't you get my letter?", "neutral"],
    ["I will come back to you by Friday.", "neutral"],
    ["Send it back by Friday.", "neutral"],
  ])("instructions, notices and questions are neutral, judgements with the same words are not: %s → %s", (text, sentiment) => {
    expect(classify(text).sentiment).toBe(sentiment);
  });

  test.each([
    "Il treno parte alle otto di sera.",
    "De trein vertrekt om acht uur.",
    "Tåget går klockan åtta.",
    "Pociąg odjeżdża o ósmej.",
    "Han er gift med en lærer.",
  ])("a language without a lexicon is neutral with little confidence: %s", (text) => {
    expect(classify(text).sentiment).toBe("neutral");
    expect(classify(text).confidence).toBeLessThan(0.3);
  });

  test("a script that it cannot read is neutral with little confidence", () => {
    const unread = classify("これはひどい。二度と買わない。");
    expect(unread.sentiment).toBe("neutral");
    expect(unread.confidence).toBeLessThan(0.3);
  });
});
