import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { ExactEvmScheme as ExactEvmScheme2_20 } from "x402-evm-2.20/exact/client";
import { wrapFetchWithPayment as wrapFetchWithPayment2_20, x402Client as x402Client2_20 } from "x402-fetch-2.20";
import { ExactSvmScheme as ExactSvmScheme2_20 } from "x402-svm-2.20/exact/client";
import { ExactEvmScheme as ExactEvmScheme2_3 } from "x402-evm-2.3/exact/client";
import { wrapFetchWithPayment as wrapFetchWithPayment2_3, x402Client as x402Client2_3 } from "x402-fetch-2.3";
import { ExactSvmScheme as ExactSvmScheme2_3 } from "x402-svm-2.3/exact/client";
import type { EvmChain } from "../evm/chain.ts";
import type { SvmChain } from "../svm/chain.ts";

/** What a client may spend at once of the lab's own token, which no client knows: 10 cents. */
const MOST = "100000";

type Both = { evm: EvmChain; svm: SvmChain };

/** x402's own fetch clients, as their users set them up: the newest, the last before spend controls (2.23), and an early one. The number is the payer's. */
export const CLIENTS: Readonly<Record<string, (chains: Both, who: number) => typeof fetch>> = {
  "2.27"({ evm, svm }, who) {
    const client = new x402Client()
      .register("eip155:*", new ExactEvmScheme(at(evm.payers, who)))
      .register("solana:*", new ExactSvmScheme(at(svm.payers, who), { rpcUrl: svm.rpcUrl }))
      .setSpendControls({ allowedAssets: [{ network: evm.network, asset: evm.token, maxAmountPerPayment: MOST }] });
    return wrapFetchWithPayment(fetch, client);
  },
  "2.20"({ evm, svm }, who) {
    const client = new x402Client2_20()
      .register("eip155:*", new ExactEvmScheme2_20(at(evm.payers, who)))
      .register("solana:*", new ExactSvmScheme2_20(at(svm.payers, who), { rpcUrl: svm.rpcUrl }));
    return wrapFetchWithPayment2_20(fetch, client);
  },
  "2.3"({ evm, svm }, who) {
    const client = new x402Client2_3()
      .register("eip155:*", new ExactEvmScheme2_3(at(evm.payers, who)))
      .register("solana:*", new ExactSvmScheme2_3(at(svm.payers, who), { rpcUrl: svm.rpcUrl }));
    return wrapFetchWithPayment2_3(fetch, client);
  },
};

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`the lab has no payer ${index}`);
  return found;
}
