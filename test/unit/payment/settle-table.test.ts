import { describe, expect, test } from "vitest";
import { meaningOf, type SettleMeaning, type SettleReply } from "../../../src/coordinator/payment/settle-table.ts";

const NOTHING: SettleReply = { status: 200, success: null, errorReason: "", transaction: "" };
const reply = (members: Partial<SettleReply>): SettleReply => ({ ...NOTHING, ...members });
const failed = (errorReason: string, members: Partial<SettleReply> = {}) => reply({ success: false, errorReason, ...members });

describe("the settle table", () => {
  test.each<[string, SettleReply, SettleMeaning]>([
    ["success with a transaction", reply({ success: true, transaction: "0x1" }), "settled"],
    ["201", reply({ status: 201, success: true, transaction: "0x1" }), "settled"],
    ["success without a transaction", reply({ success: true }), "unknown"],
    ["success without a transaction, with a reason", reply({ success: true, errorReason: "insufficient_funds" }), "unknown"],
    ["success with a 4xx", reply({ status: 402, success: true, transaction: "0x1" }), "unknown"],
    ["success with a 3xx", reply({ status: 302, success: true, transaction: "0x1" }), "unknown"],
    ["a transaction and no success", failed("insufficient_funds", { transaction: "0x1" }), "unknown"],
    ["a transaction with a status that says that nobody was asked", failed("x", { status: 429, transaction: "0x1" }), "unknown"],
    ["a reason from before broadcast", failed("invalid_exact_evm_signature"), "refused"],
    ["the same with an error status", failed("insufficient_funds", { status: 402 }), "refused"],
    ["a reason that nobody knows", failed("because"), "unknown"],
    ["a reason that contains a known one", failed("not_insufficient_funds"), "unknown"],
    ["no reason", failed(""), "unknown"],
    ["the name of a member of every object", failed("constructor"), "unknown"],
    ["a body that is no answer", reply({}), "unknown"],
    ["a redirect", reply({ status: 307 }), "unknown"],
    ["400 without an answer", reply({ status: 400 }), "unknown"],
    ["used before", failed("invalid_exact_evm_nonce_already_used"), "already_used"],
    ["used before, with 409", failed("nonce_already_used", { status: 409 }), "already_used"],
    ["used before, on the SVM", failed("duplicate_settlement"), "already_used"],
    ["401", reply({ status: 401 }), "not_asked"],
    ["403", reply({ status: 403 }), "not_asked"],
    ["404", reply({ status: 404 }), "not_asked"],
    ["429, whatever its body says", failed("invalid_exact_evm_nonce_already_used", { status: 429 }), "not_asked"],
    ["connection refused, as Cloudflare says it", reply({ status: 521 }), "not_asked"],
    ["500", reply({ status: 500 }), "lost"],
    ["503, whatever its body says", failed("insufficient_funds", { status: 503 }), "lost"],
    ["522", reply({ status: 522 }), "lost"],
    ["a time-out", reply({ status: "timeout" }), "lost"],
    ["a cut connection", reply({ status: "cut" }), "lost"],
  ])("[PY8] %s", (_, answer, meaning) => {
    expect(meaningOf(answer)).toBe(meaning);
  });

  // 2.3 and 2.20 give up their wait for the chain with the first of these, and the transfer is mined later.
  test.each([
    "transaction_failed",
    "invalid_exact_evm_transaction_failed",
    "invalid_exact_svm_transaction_failed",
    "invalid_transaction_state",
    "invalid_exact_evm_transfer_event_mismatch",
    "post_settlement_transfer_not_confirmed",
    "settlement_pending",
    "smart_wallet_deployment_failed",
    "unexpected_settle_error",
    "settle_exact_svm_transaction_confirmation_timed_out",
  ])("[PY8] %s is no refusal: money may move after it", (reason) => {
    expect(meaningOf(failed(reason))).toBe("unknown");
    expect(meaningOf(failed(reason, { status: 400 }))).toBe("unknown");
  });
});
