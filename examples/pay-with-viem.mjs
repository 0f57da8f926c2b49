// Pay for a job with a wallet of viem, on the EVM instance: EVM_PRIVATE_KEY=0x… node examples/pay-with-viem.mjs
// It needs viem. The payer needs the token and no gas. Set EVM_USDC for another token than that of Monad testnet.
import { ComputeRouter } from "compute-router";
import { MONAD_TESTNET_USDC, payWithEvm } from "compute-router/evm";
import { privateKeyToAccount } from "viem/accounts";

const account = privateKeyToAccount(process.env.EVM_PRIVATE_KEY);
const token = { network: MONAD_TESTNET_USDC.network, asset: process.env.EVM_USDC ?? MONAD_TESTNET_USDC.asset };
// Two limits: what one payment may be, and what one job may cost.
const payment = payWithEvm(account, { tokens: [token], maxPrice: "$0.01" });
const router = new ComputeRouter({ instance: "evm", payment, maxPrice: "$0.01", requireVerified: true });

const { output, price, receipt } = await router.classify("The delivery was quick and the staff were kind.", { policy: "FAST" });
console.log(`${output.sentiment} for ${price}, settled by ${receipt.payment_ref}`);
console.log(`spent in all: ${router.usage().spent}`);
