// The x402 clients that pay in the payment tests.
import axios from "axios";
import { wrapAxiosWithPayment, x402Client as x402ClientOfAxios } from "@x402/axios";
import { wrapFetchWithPayment, x402Client, x402HTTPClient } from "@x402/fetch";
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

/**
 * x402's own clients, as their users set them up: of @x402/fetch the newest, the last before spend controls (2.23) and an early one; the newest
 * @x402/axios; and the operations of `x402HTTPClient` by hand. The number is the payer's.
 */
export const CLIENTS: Readonly<Record<string, (chains: Both, who: number) => typeof fetch>> = {
  "@x402/fetch 2.27": (chains, who) => wrapFetchWithPayment(fetch, newest(chains, who)),
  "@x402/fetch 2.20"({ evm, svm }, who) {
    const client = new x402Client2_20()
      .register("eip155:*", new ExactEvmScheme2_20(at(evm.payers, who)))
      .register("solana:*", new ExactSvmScheme2_20(at(svm.payers, who), { rpcUrl: svm.rpcUrl }));
    return wrapFetchWithPayment2_20(fetch, client);
  },
  "@x402/fetch 2.3"({ evm, svm }, who) {
    const client = new x402Client2_3()
      .register("eip155:*", new ExactEvmScheme2_3(at(evm.payers, who)))
      .register("solana:*", new ExactSvmScheme2_3(at(svm.payers, who), { rpcUrl: svm.rpcUrl }));
    return wrapFetchWithPayment2_3(fetch, client);
  },
  "@x402/axios 2.11"({ evm, svm }, who) {
    const client = new x402ClientOfAxios()
      .register("eip155:*", new ExactEvmScheme(at(evm.payers, who)))
      .register("solana:*", new ExactSvmScheme(at(svm.payers, who), { rpcUrl: svm.rpcUrl }));
    const paying = wrapAxiosWithPayment(axios.create({ responseType: "text", transformResponse: (text: string) => text }), client);
    return async (input, { method = "GET", body, headers } = {}) => {
      const answer = await paying.request<string>({ url: String(input), method, data: body, headers: Object.fromEntries(new Headers(headers)) });
      const fields = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
      return new Response(answer.data, { status: answer.status, headers: fields });
    };
  },
  "x402HTTPClient 2.27 by hand"(chains, who) {
    const client = new x402HTTPClient(newest(chains, who));
    return async (input, init = {}) => {
      const refusal = await fetch(input, init);
      if (refusal.status !== 402) return refusal;
      const required = client.getPaymentRequiredResponse((name) => refusal.headers.get(name), await refusal.json());
      const headers = client.encodePaymentSignatureHeader(await client.createPaymentPayload(required));
      return fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init.headers)), ...headers } });
    };
  },
};

function newest({ evm, svm }: Both, who: number): x402Client {
  return new x402Client()
    .register("eip155:*", new ExactEvmScheme(at(evm.payers, who)))
    .register("solana:*", new ExactSvmScheme(at(svm.payers, who), { rpcUrl: svm.rpcUrl }))
    .setSpendControls({ allowedAssets: [{ network: evm.network, asset: evm.token, maxAmountPerPayment: MOST }] });
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`the lab has no payer ${index}`);
  return found;
}
