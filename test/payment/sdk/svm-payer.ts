import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { payWithSvm } from "../../../src/sdk/pay/svm.ts";

const secret = getBase58Encoder().encode(process.env["SVM_PRIVATE_KEY"] ?? "");

/** A payer for `compute-router task --payer` on the SVM, as a user writes one. */
export default payWithSvm(await createKeyPairSignerFromBytes(Uint8Array.from(secret)), { rpcUrl: process.env["SVM_RPC_URL"] ?? "" });
