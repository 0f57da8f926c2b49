// Pay for a job on the SVM instance: SVM_PRIVATE_KEY=… SVM_RPC_URL=https://api.devnet.solana.com node examples/pay-on-solana.mjs
// It needs @solana/kit and @x402/svm. The key is the 64 bytes of a Solana wallet in base58. The facilitator pays the fee.
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { ComputeRouter } from "compute-router";
import { payWithSvm } from "compute-router/svm";

const signer = await createKeyPairSignerFromBytes(new Uint8Array(getBase58Encoder().encode(process.env.SVM_PRIVATE_KEY)));
const payment = payWithSvm(signer, { rpcUrl: process.env.SVM_RPC_URL, maxPrice: "$0.01" });
const router = new ComputeRouter({ instance: "svm", payment, maxPrice: "$0.01", requireVerified: true });

const { output, price, receipt } = await router.classify("The delivery was quick and the staff were kind.", { policy: "FAST" });
console.log(`${output.sentiment} for ${price}, settled by ${receipt.payment_ref}`);
console.log(`spent in all: ${router.usage().spent}`);
