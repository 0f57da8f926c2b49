import { describe, expect, test } from "vitest";
import { meaningOf } from "../../../src/coordinator/payment/settle-table.ts";
import { REASONS, reasonsIn } from "../../support/settle-reasons.ts";

describe("the reasons of x402's own facilitators", () => {
  test.each(Object.entries(REASONS))("[PY8] each that is %s means that", (meaning, reasons) => {
    const answers = reasons.map((errorReason) => ({ status: 200, success: false, errorReason, transaction: "" }));
    for (const status of [200, 400, 402]) expect(answers.filter((answer) => meaningOf({ ...answer, status }) !== meaning)).toEqual([]);
    // With more text behind it, as some of them come, or with a transaction, nobody knows.
    expect(answers.filter((answer) => meaningOf({ ...answer, errorReason: `${answer.errorReason}: because` }) !== "unknown")).toEqual([]);
    expect(answers.filter((answer) => meaningOf({ ...answer, transaction: "0x1" }) !== "unknown")).toEqual([]);
  });

  // The older versions that facilitators run are read in test/payment/reasons.test.ts.
  test.each(["@x402/evm", "@x402/svm"])("[PY8] %s, as it is installed, has no reason that is not in this list", (name) => {
    const named = new Set<string>(Object.values(REASONS).flat());
    const read = reasonsIn(name, import.meta.filename);
    expect(read.length).toBeGreaterThan(30);
    expect(read.filter((reason) => !named.has(reason))).toEqual([]);
  });
});
