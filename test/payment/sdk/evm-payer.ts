import { privateKeyToAccount } from "viem/accounts";
import { payWithEvm } from "../../../src/sdk/pay/evm.ts";

/** A payer for `compute-router task --payer` on the EVM, as a user writes one. */
export default payWithEvm(privateKeyToAccount(process.env["EVM_PRIVATE_KEY"] as `0x${string}`), {
  tokens: [{ network: "eip155:10143", asset: process.env["EVM_USDC"] ?? "" }],
});
