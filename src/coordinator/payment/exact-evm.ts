// Reads a payment of the scheme `exact` on EVM and checks it without asking anyone. On a job's way: pay.
import * as z from "zod";
import { TIMING } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/text.ts";
import type { Requirements, SchemePayment } from "./terms.ts";

const lowerCase = (text: string) => text.toLowerCase();
const Address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/, "must be an address, 0x and 40 hex digits")
  .transform(lowerCase);
const Uint256 = z.string().refine((text) => /^(0|[1-9]\d{0,77})$/.test(text) && BigInt(text) < 1n << 256n, "must be a decimal string of less than 2^256");

/** An EIP-3009 authorization and its signature: 65 bytes from a key, more from a contract, never fewer than 64. */
const Payload = z.object({
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
  const parsed = Payload.safeParse(payload);
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
