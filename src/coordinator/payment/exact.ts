// Reads a payment of the scheme `exact`, on EVM or Solana, and checks it without asking anyone. On a job's way: pay.
import { sha256 } from "@noble/hashes/sha2.js";
import * as z from "zod";
import { TIMING } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/text.ts";
import { fromBase64, toBase64, toHex } from "../../receipt/bytes.ts";
import { associatedTokenAccount } from "../chain/addresses.ts";
import { MAX_TRANSACTION_BYTES, readTransaction, type SvmInstruction, type SvmTransaction } from "../chain/svm-transaction.ts";
import type { Requirements, SchemePayment } from "./terms.ts";

const lowerCase = (text: string) => text.toLowerCase();
const Address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/, "must be an address, 0x and 40 hex digits")
  .transform(lowerCase);
const Uint256 = z.string().refine((text) => /^(0|[1-9]\d{0,77})$/.test(text) && BigInt(text) < 1n << 256n, "must be a decimal string of less than 2^256");

/** An EIP-3009 authorization and its signature: 65 bytes from a key, more from a contract, never fewer than 64. */
const EvmPayload = z.object({
  signature: z
    .string()
    .regex(/^0x(?:[0-9a-fA-F]{2}){64,4096}$/, "must be 0x and 64 bytes of hex or more")
    .transform(lowerCase),
  authorization: z.object({
    from: Address,
    to: Address,
    value: Uint256,
    validAfter: Uint256,
    validBefore: Uint256,
    nonce: z
      .string()
      .regex(/^0x[0-9a-fA-F]{64}$/, "must be 0x and 32 bytes of hex")
      .transform(lowerCase),
  }),
});

/**
 * Checks an EVM payment of the scheme `exact`: its shape, payee and amount, and its times at `now` (ms) [PY3]. The reason is its first fault.
 * Hex text becomes lower case: the signature is over the bytes, and some facilitators fail if the checksum of an address is wrong.
 */
export function readExactEvm(payload: unknown, ours: Requirements, now: number): Result<SchemePayment, string> {
  const parsed = EvmPayload.safeParse(payload);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return {
      ok: false,
      reason: `payload.${issue?.path.join(".") ?? ""} ${issue?.code === "invalid_format" || issue?.code === "custom" ? issue.message : "is missing or wrong"}`,
    };
  }
  const { authorization } = parsed.data;
  const { from, to, value, nonce } = authorization;
  if (to !== lowerCase(ours.payTo)) return { ok: false, reason: `payload.authorization.to must be ${ours.payTo}` };
  if (value !== ours.amount) return { ok: false, reason: `payload.authorization.value must be ${ours.amount}` };
  const validBefore = BigInt(authorization.validBefore) * 1_000n;
  return {
    ok: true,
    value: {
      payload: parsed.data,
      key: `${ours.network}:${ours.asset}:${from}:${nonce}`.toLowerCase(),
      payer: from,
      feePayer: null,
      expiresAt: validBefore < BigInt(now + TIMING.evmLongest) ? Number(validBefore) : now + TIMING.evmLongest,
      untimely:
        BigInt(authorization.validAfter) * 1_000n > BigInt(now)
          ? "payload.authorization.validAfter is in the future"
          : validBefore < BigInt(now + TIMING.evmMargin)
            ? `payload.authorization.validBefore must be at least ${TIMING.evmMargin / 1_000} s from now`
            : null,
    },
  };
}

const MAX_BASE64 = Math.ceil(MAX_TRANSACTION_BYTES / 3) * 4;
const TOKEN_PROGRAMS: readonly string[] = ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"];
const TRANSFER_CHECKED = 12;

const SvmPayload = z.object({ transaction: z.string().min(1).max(MAX_BASE64) });

/**
 * Checks an SVM payment of the scheme `exact`: its transaction decodes, the payer has signed, and if all its transfers can be read, one of them is ours
 * [PY3]. The reason is its first fault.
 * A transfer inside another program (a smart wallet) or through a lookup table is left to the facilitator, which simulates it.
 */
export function readExactSvm(payload: unknown, ours: Requirements, now: number): Result<SchemePayment, string> {
  const parsed = SvmPayload.safeParse(payload);
  if (!parsed.success) return { ok: false, reason: `payload.transaction must be a string of 1 to ${MAX_BASE64} characters` };
  const bytes = fromBase64(parsed.data.transaction);
  const transaction = bytes === null ? null : readTransaction(bytes);
  const [feePayer] = transaction?.signers ?? [];
  if (bytes === null || transaction === null || feePayer === undefined) {
    return { ok: false, reason: "payload.transaction must be a serialized transaction in base64" };
  }
  // The first signature is the fee payer's, which the facilitator adds last.
  if (transaction.signatures.slice(1).some((signature) => signature.every((byte) => byte === 0))) {
    return { ok: false, reason: "payload.transaction is not signed by its payer" };
  }
  const transfers = transaction.instructions.filter(isTransfer);
  const named = transfers.filter(({ accounts }) => accounts.slice(0, 4).every((account) => account !== null));
  const payer = named.map((transfer) => payerOf(transfer, ours, transaction)).find((found) => found !== null) ?? null;
  if (payer === null && transfers.length > 0 && transfers.length === named.length) {
    return { ok: false, reason: `payload.transaction must transfer ${ours.amount} of ${ours.asset} to the token account of ${ours.payTo}` };
  }
  return {
    ok: true,
    value: {
      payload: { transaction: toBase64(bytes) },
      key: toHex(sha256(transaction.message)),
      payer,
      feePayer,
      expiresAt: now + TIMING.svmLifetime,
      untimely: null,
    },
  };
}

/** True for a transfer of tokens whose first account is the one that pays. */
export function isTransfer({ program, data }: SvmInstruction): boolean {
  return TOKEN_PROGRAMS.includes(program) && data[0] === TRANSFER_CHECKED;
}

/** The payer of this TransferChecked, if it is the transfer that we asked for; otherwise null. */
function payerOf({ program, accounts, data }: SvmInstruction, ours: Requirements, { signers }: SvmTransaction): string | null {
  const [, mint, destination, owner] = accounts;
  const amount = data.length === 10 ? new DataView(data.buffer, data.byteOffset).getBigUint64(1, true) : null;
  const wanted = mint === ours.asset && amount === BigInt(ours.amount) && destination === associatedTokenAccount(ours.payTo, program, ours.asset);
  // The owner of a token account may be a multisig account, which does not sign itself.
  return wanted && owner != null && (signers.includes(owner) || accounts.length > 4) ? owner : null;
}
