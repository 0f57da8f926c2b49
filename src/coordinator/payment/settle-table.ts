// What a facilitator's answer to settle means for the money: one closed table. What it does not name is unknown. On a job's way: settle.
import { ALREADY_USED } from "../../protocol/pricing.ts";

/**
 * What one settle call has shown [PY8].
 *
 * - `settled`: the money has moved, by the transaction that the answer names.
 * - `refused`: this call sent nothing to the chain.
 * - `already_used`: the chain has used or cancelled the authorization before; the answer does not say by whom and for what.
 * - `not_asked`: the facilitator did not accept the request.
 * - `unknown`: the money may have moved.
 * - `lost`: the money may have moved, and there was no answer at all. A payer can cause an `unknown`, and on Solana also a time-out, by a
 *   transaction that does not land in time.
 */
export type SettleMeaning = "settled" | "refused" | "already_used" | "not_asked" | "unknown" | "lost";

/** What came back from one settle call. */
export type SettleReply = {
  /** The HTTP status; or how the call ended without one. */
  status: number | "timeout" | "cut";
  /** The members of the answer; null and empty if it has none, or cannot be read. */
  success: boolean | null;
  errorReason: string;
  transaction: string;
};

/**
 * The statuses of a facilitator that does not accept the request: no access, not found, too many requests. 521 is how Cloudflare says that the facilitator's
 * server refused the connection.
 */
const NOT_ASKED: readonly number[] = [401, 403, 404, 429, 521];

/**
 * The reasons that a facilitator gives before it sends anything: those of x402's specification and of its own facilitators (@x402/evm and @x402/svm 2.3 to
 * 2.27). They come from the check that settle makes first, or from an estimate that reverts.
 * Left out on purpose, so unknown: `transaction_failed` and `invalid_transaction_state` (2.3 and 2.20 give it when their wait for the receipt ends),
 * `settlement_pending`, `unexpected_settle_error`, and every reason that is given after a transaction was sent.
 */
const REFUSED: ReadonlySet<string> = new Set([
  // Scheme, network and version, of either chain.
  "invalid_scheme",
  "unsupported_scheme",
  "invalid_network",
  "network_mismatch",
  "invalid_x402_version",
  "invalid_payload",
  "unsupported_payload_type",
  "invalid_payment",
  "invalid_payment_requirements",
  "payment_expired",
  "insufficient_funds",
  // EVM, EIP-3009.
  "missing_eip712_domain",
  "asset_not_deployed_contract",
  "eip6492_factory_not_allowed",
  "invalid_exact_evm_scheme",
  "invalid_exact_evm_network_mismatch",
  "invalid_exact_evm_missing_eip712_domain",
  "invalid_exact_evm_recipient_mismatch",
  "invalid_exact_evm_signature",
  "invalid_exact_evm_failed_to_parse_signature",
  "invalid_exact_evm_authorization_value",
  "invalid_exact_evm_insufficient_balance",
  "invalid_exact_evm_token_name_mismatch",
  "invalid_exact_evm_token_version_mismatch",
  "invalid_exact_evm_eip3009_not_supported",
  "invalid_exact_evm_transaction_simulation_failed",
  "invalid_exact_evm_payload_signature",
  "invalid_exact_evm_payload_recipient_mismatch",
  "invalid_exact_evm_payload_undeployed_smart_wallet",
  "invalid_exact_evm_payload_authorization_value",
  "invalid_exact_evm_payload_authorization_value_mismatch",
  "invalid_exact_evm_payload_authorization_valid_after",
  "invalid_exact_evm_payload_authorization_valid_before",
  // SVM. A payer without enough money fails in the simulation.
  "transaction_simulation_failed",
  "verification_failed",
  "fee_payer_not_managed_by_facilitator",
  "invalid_exact_svm_transaction_simulation_failed",
  "invalid_exact_svm_verification_failed",
  "invalid_exact_svm_unsupported_scheme",
  "invalid_exact_svm_network_mismatch",
  "invalid_exact_svm_fee_payer_not_managed_by_facilitator",
  "invalid_exact_svm_fee_payer_mismatch",
  "invalid_exact_svm_invalid_fee_payer",
  "invalid_exact_svm_payload_missing_fee_payer",
  "invalid_exact_svm_payload_transaction",
  "invalid_exact_svm_payload_transaction_could_not_be_decoded",
  "invalid_exact_svm_payload_signature_invalid",
  "invalid_exact_svm_payload_excessive_signers",
  "invalid_exact_svm_payload_transaction_instructions_length",
  "invalid_exact_svm_payload_transaction_instructions_compute_limit_instruction",
  "invalid_exact_svm_payload_transaction_instructions_compute_limit_instruction_too_high",
  "invalid_exact_svm_payload_transaction_instructions_compute_price_instruction",
  "invalid_exact_svm_payload_transaction_instructions_compute_price_instruction_too_high",
  "invalid_exact_svm_payload_transaction_fee_payer_transferring_funds",
  "invalid_exact_svm_payload_no_transfer_instruction",
  "invalid_exact_svm_payload_unknown_fourth_instruction",
  "invalid_exact_svm_payload_unknown_fifth_instruction",
  "invalid_exact_svm_payload_unknown_sixth_instruction",
  "invalid_exact_svm_payload_unknown_seventh_instruction",
  "invalid_exact_svm_payload_unknown_optional_instruction",
  "invalid_exact_svm_payload_mint_mismatch",
  "invalid_exact_svm_payload_recipient_mismatch",
  "invalid_exact_svm_payload_amount_mismatch",
  "invalid_exact_svm_payload_amount_insufficient",
  "invalid_exact_svm_payload_memo_mismatch",
  "invalid_exact_svm_payload_memo_count",
]);

/** What a settle call has shown. The first line that fits decides; every other answer is unknown [PY8]. */
export function meaningOf({ status, success, errorReason, transaction }: SettleReply): SettleMeaning {
  if (typeof status === "string") return "lost";
  if (transaction !== "") return success === true && status >= 200 && status < 300 ? "settled" : "unknown";
  if (NOT_ASKED.includes(status)) return "not_asked";
  if (status >= 500) return "lost";
  if (success !== false) return "unknown";
  if (ALREADY_USED.includes(errorReason)) return "already_used";
  return REFUSED.has(errorReason) ? "refused" : "unknown";
}
