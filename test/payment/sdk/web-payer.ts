import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { privateKeyToAccount } from "viem/accounts";
import { ComputeRouter, type PaymentHook } from "../../../src/sdk/index.ts";
import { payWithEvm } from "../../../src/sdk/pay/evm.ts";
import { payWithSvm } from "../../../src/sdk/pay/svm.ts";

/** What to buy, where, and with whose money. */
export type Errand = { instance: "evm" | "svm"; url: string; secret: string; network: string; asset: string; rpcUrl: string; maxPrice: string };

/** What came of it, and which of Node's globals were there to lean on. */
export type Errands = { result: unknown; error: string | null; node: string[] };

// A page that came over https says so, and @solana/kit asks before it signs.
Object.assign(globalThis, { isSecureContext: true });

/** Buys a job with the SDK where there is nothing of Node. */
export async function buy({ instance, url, secret, network, asset, rpcUrl, maxPrice }: Errand): Promise<Errands> {
  const node = ["process", "Buffer", "require", "global", "setImmediate"].filter((name) => name in globalThis);
  try {
    const tokens = [{ network, asset }];
    const payment: PaymentHook =
      instance === "evm"
        ? payWithEvm(privateKeyToAccount(secret as `0x${string}`), { tokens, maxPrice })
        : payWithSvm(await createKeyPairSignerFromBytes(Uint8Array.from(getBase58Encoder().encode(secret))), { rpcUrl, maxPrice });
    const router = new ComputeRouter({ baseUrl: url, payment, pollInterval: 50 });
    const result = await router.run({ job_type: "TASK", task_type: "classify", input: "good" }, { policy: "FAST", requireVerified: true });
    return { result, error: null, node };
  } catch (error) {
    return { result: null, error: String(error), node };
  }
}

export default {
  async fetch(request: Request): Promise<Response> {
    return request.method === "POST" ? Response.json(await buy((await request.json()) as Errand)) : new Response("ready");
  },
};
