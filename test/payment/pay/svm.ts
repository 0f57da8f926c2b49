import { getBase64EncodedWireTransaction, getTransactionDecoder, type KeyPairSigner, type SignatureBytes } from "@solana/kit";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import type { PaymentRequirements } from "@x402/core/types";
import type { Requirement } from "./challenge.ts";

/** The `payload` of an exact SVM payment: base64 of a transaction that lacks the fee payer's signature. */
export type SvmPayload = { transaction: string };

/** Signs a transfer for what is required, with x402's own client. */
export async function signSvm(payer: KeyPairSigner, requirement: Requirement, rpcUrl: string): Promise<SvmPayload> {
  const { payload } = await new ExactSvmScheme(payer, { rpcUrl }).createPaymentPayload(2, requirement as PaymentRequirements);
  return payload as SvmPayload;
}

/** The same payment with a changed bit in the payer's signature. */
export function spoilSvm({ transaction }: SvmPayload, payer: KeyPairSigner): SvmPayload {
  const decoded = getTransactionDecoder().decode(Buffer.from(transaction, "base64"));
  const signature = Uint8Array.from(decoded.signatures[payer.address] ?? []);
  signature[10] = (signature[10] ?? 0) ^ 1;
  return { transaction: getBase64EncodedWireTransaction({ ...decoded, signatures: { ...decoded.signatures, [payer.address]: signature as SignatureBytes } }) };
}
