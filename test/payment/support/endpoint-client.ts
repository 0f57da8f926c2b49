// A client of a protected endpoint as x402's own end-to-end suite runs them: keys and address from the environment, one request, one line of JSON
// `{ success, data, status_code, payment_response }`. Ours is a POST with a body, and its chain is local.
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client, x402HTTPClient } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const { RESOURCE_SERVER_URL, ENDPOINT_PATH, REQUEST_BODY, EVM_PRIVATE_KEY, EVM_NETWORK, EVM_ASSET, SVM_PRIVATE_KEY, SVM_RPC_URL } = process.env as Record<
  string,
  string
>;

const svmSigner = await createKeyPairSignerFromBytes(Uint8Array.from(getBase58Encoder().encode(SVM_PRIVATE_KEY ?? "")));
const client = new x402Client()
  .register("eip155:*", new ExactEvmScheme(privateKeyToAccount(EVM_PRIVATE_KEY as `0x${string}`)))
  .register("solana:*", new ExactSvmScheme(svmSigner, { rpcUrl: SVM_RPC_URL ?? "" }))
  .setSpendControls({ allowedAssets: [{ network: EVM_NETWORK as `${string}:${string}`, asset: EVM_ASSET ?? "", maxAmountPerPayment: "10000" }] });

const response = await wrapFetchWithPayment(fetch, client)(`${RESOURCE_SERVER_URL}${ENDPOINT_PATH}`, { method: "POST", body: REQUEST_BODY ?? "" });
const settlement = new x402HTTPClient(client).getPaymentSettleResponse((name) => response.headers.get(name));
console.log(JSON.stringify({ success: settlement.success, data: await response.json(), status_code: response.status, payment_response: settlement }));
