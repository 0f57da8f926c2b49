/**
 * Receipts of The Compute Router: verify one, or hash an output and sign it as a worker does. No network, no storage. docs/receipts.md defines the bytes.
 * @module
 */

// What a receipt is
export type { Receipt, ReceiptFields } from "../protocol/job.ts";

// Verify
export { verifyReceipt } from "./receipt.ts";
export type { ReceiptCheck } from "./receipt.ts";
export { verifyText } from "./ed25519.ts";

// Hash and sign
export { canonicalize, outputHash, receiptText, signReceipt } from "./receipt.ts";
export { keyPair, signText } from "./ed25519.ts";
export type { KeyPair } from "./ed25519.ts";

// Show a key to people
export { fingerprintOf } from "./ed25519.ts";
