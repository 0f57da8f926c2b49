// Reads the payment of a request from its headers and checks it by our terms: the scheme `exact`, on EVM or Solana, without a network call. On a job's way:
// pay.
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import * as z from "zod";
import { isJsonObject, readJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";
import { isSameAddress, utf8Length } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { fromBase64, toBase64, toHex } from "../../receipt/bytes.ts";
import { isTransfer, isTransferOf, MAX_TRANSACTION_BYTES, readTransaction, type SvmInstruction, type SvmTransaction } from "../chain/svm-transaction.ts";
import { type Offer, requirements, type Requirements, resourceInfo } from "./terms.ts";

/** The headers that may carry a payment [PY3]. */
export type PaymentHeaders = { "PAYMENT-SIGNATURE": string | undefined; "X-PAYMENT": string | undefined };

/** A payment of one scheme as it was read. It meets our terms, as far as its text shows. */
type SchemePayment = {
  /** The inner payload, in the one form that the digest and the facilitator see. */
  payload: Record<string, unknown>;
  /** Identifies one real payment [PY6]. */
  key: string;
  /** Who pays; null if the payment itself does not say it. */
  payer: string | null;
  /** Who pays the chain's fee; null if the payment does not name it (EVM). */
  feePayer: string | null;
  /** When the authorization expires, ms since the epoch. */
  expiresAt: number;
  /** Why its times are not valid now; null if they are. This is not a refusal yet: the payment may have been in time when it came first [PY6]. */
  untimely: string | null;
};

/** A payment that was read and meets our terms. The facilitator has not seen it yet. */
export type ReadPayment = SchemePayment & {
  /** SHA-256 hex of the inner payload: the same payload in another header or envelope is the same payment [PY6]. */
  digest: string;
};

/** The names of networks in version 1, with their CAIP-2 names in version 2. */
const V1_NETWORKS: ReadonlyMap<unknown, string> = new Map([
  ["solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"],
  ["solana-devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"],
  ["solana-testnet", "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"],
]);

/** True if a request has a payment, valid or not. */
export function bringsPayment(headers: PaymentHeaders): boolean {
  return Boolean(headers["PAYMENT-SIGNATURE"]) || Boolean(headers["X-PAYMENT"]);
}

/**
 * Reads the payment of a request from either header, in either version, and compares its terms with `offer` [PY3]. Some wallets send both headers. Then
 * both must have the same payment, because we cannot know which of two to charge. The reason says what is wrong.
 */
export function readPayment(headers: PaymentHeaders, offer: Offer, now: number): Result<ReadPayment, string> {
  const names = (["PAYMENT-SIGNATURE", "X-PAYMENT"] as const).filter((name) => headers[name]);
  const payments = names.map((name) => readHeader(headers, name, offer, now));
  const [first = { ok: false, reason: "no payment header" }, second] = payments;
  const bad = payments.find((payment) => !payment.ok);
  if (bad !== undefined) return bad;
  if (first.ok && second?.ok && first.value.digest !== second.value.digest) return { ok: false, reason: `${names.join(" and ")} bring different payments` };
  return first;
}

/**
 * JSON text of the v2 payload for the facilitator: our terms and our description, and of the client's text only what was signed [PY3]. The extensions, which
 * are four times as long and the same for each payment, are added when the facilitator is asked.
 */
export function payloadText(payment: ReadPayment, offer: Offer): string {
  return JSON.stringify({ x402Version: 2, resource: resourceInfo(offer), accepted: chargedTerms(payment, offer), payload: payment.payload });
}

/**
 * The idempotency key that a payment brings in the x402 extension `payment-identifier`: 16 to 128 letters, digits, `_` and `-`. Null if it brings none, or
 * none of that form.
 */
export function paymentIdentifier(headers: PaymentHeaders): string | null {
  const envelope = envelopeOf(headers, headers["PAYMENT-SIGNATURE"] ? "PAYMENT-SIGNATURE" : "X-PAYMENT");
  let value: unknown = envelope.ok ? envelope.value : null;
  for (const member of ["extensions", "payment-identifier", "info", "id"]) value = isJsonObject(value) && Object.hasOwn(value, member) ? value[member] : null;
  return typeof value === "string" && /^[\w-]{16,128}$/.test(value) ? value : null;
}

/** Our terms for this payment. They name its own fee payer, because any signer of the facilitator may pay the fee [PY11]. */
export function chargedTerms({ feePayer }: ReadPayment, offer: Offer): Requirements {
  const ours = requirements(offer);
  return feePayer === null ? ours : { ...ours, extra: { ...ours.extra, feePayer } };
}

function readHeader(headers: PaymentHeaders, name: keyof PaymentHeaders, offer: Offer, now: number): Result<ReadPayment, string> {
  const wrong = (fault: string) => ({ ok: false, reason: `${name}: ${fault}` }) as const;
  const envelope = envelopeOf(headers, name);
  if (!envelope.ok) return wrong(envelope.reason);
  const ours = requirements(offer);
  const mismatch = compareTerms(envelope.value, ours);
  if (mismatch !== null) return wrong(mismatch);
  const { payload } = envelope.value;
  if (!isJsonObject(payload)) return wrong("payload must be an object");
  const read = offer.instance === "evm" ? readExactEvm(payload, ours, now) : readExactSvm(payload, ours, now);
  if (!read.ok) return wrong(read.reason);
  return { ok: true, value: { ...read.value, digest: toHex(sha256(utf8ToBytes(JSON.stringify(read.value.payload)))) } };
}

type Envelope = Result<Record<string, unknown>, string>;

/** What was read of the headers of a request: they are asked for twice. */
const envelopes = new WeakMap<PaymentHeaders, Partial<Record<keyof PaymentHeaders, Envelope>>>();

/** The envelope that a header brings; the reason says what is wrong with its text. */
function envelopeOf(headers: PaymentHeaders, name: keyof PaymentHeaders): Envelope {
  const known = envelopes.get(headers) ?? {};
  envelopes.set(headers, known);
  return (known[name] ??= readEnvelope(headers[name] ?? ""));
}

function readEnvelope(header: string): Envelope {
  const wrong = (reason: string): Envelope => ({ ok: false, reason });
  if (utf8Length(header) > LIMITS.paymentHeaderBytes) return wrong(`must not be larger than ${LIMITS.paymentHeaderBytes} bytes`);
  const text = decode(header);
  if (text === null) return wrong("must be base64 of UTF-8");
  const json = readJson(text);
  if (!json.ok) return wrong(json.reason === "too_deep" ? `must not nest deeper than ${LIMITS.jsonDepth} levels` : "must be base64 of JSON");
  return isJsonObject(json.value) ? { ok: true, value: json.value } : wrong("must be base64 of a JSON object");
}

function decode(header: string): string | null {
  const bytes = fromBase64(header.trim());
  if (bytes === null) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The first term of an envelope that is not ours; null if all are ours. The version decides where the terms are. */
function compareTerms(envelope: Record<string, unknown>, ours: Requirements): string | null {
  const { x402Version } = envelope;
  if (x402Version === 1) {
    // Version 1 names only scheme and network. The other terms are in what was signed.
    if (envelope.scheme !== ours.scheme) return `scheme must be ${ours.scheme}`;
    const network = V1_NETWORKS.get(envelope.network) ?? envelope.network;
    return network === ours.network ? null : `network must be ${ours.network}`;
  }
  if (x402Version !== 2) return "x402Version must be 2 or 1";
  const { accepted } = envelope;
  if (!isJsonObject(accepted)) return "accepted must be an object";
  for (const term of ["scheme", "network", "amount", "asset", "payTo"] as const) {
    const theirs = accepted[term];
    if (typeof theirs !== "string" || !isSameAddress(theirs, ours[term])) return `accepted.${term} must be ${ours[term]}`;
  }
  return null;
}

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

/** The payer of this TransferChecked, if it is the transfer that we asked for; otherwise null. */
function payerOf(transfer: SvmInstruction, ours: Requirements, { signers }: SvmTransaction): string | null {
  const owner = transfer.accounts[3];
  // The owner of a token account may be a multisig account, which does not sign itself.
  return isTransferOf(transfer, ours) && owner != null && (signers.includes(owner) || transfer.accounts.length > 4) ? owner : null;
}
