import { HTTPFacilitatorClient, x402ResourceServer } from "@x402/core/server";
import { decodePaymentSignatureHeader, encodePaymentRequiredHeader, encodePaymentResponseHeader } from "@x402/core/http";
import type { Network, PaymentRequirements } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { ExactSvmScheme } from "@x402/svm/exact/server";
import { TOKEN_NAME, TOKEN_VERSION } from "../evm/token.ts";
import { type Listener, listen, sendJson } from "../loopback.ts";
import type { Lab } from "../start-lab.ts";

/** What anything costs in the shop, in dollars and in millionths. */
export const PRICE = { money: "$0.001", atomic: 1_000n } as const;

/** The smallest server that x402's clients can pay: `/evm` and `/svm` cost a tenth of a cent. @throws when it cannot reach the facilitator */
export async function startShop(lab: Lab): Promise<Listener> {
  const { evm, svm } = lab;
  if (evm === undefined || svm === undefined) throw new Error("the shop sells on both chains");
  const evmScheme = new ExactEvmScheme().registerMoneyParser((dollars) =>
    Promise.resolve({ amount: String(Math.round(Number(dollars) * 1e6)), asset: evm.token, extra: { name: TOKEN_NAME, version: TOKEN_VERSION } }),
  );
  const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: lab.facilitator.url }));
  server.register(evm.network, evmScheme).register(svm.network, new ExactSvmScheme());
  await server.initialize();
  const requirementsOf = (network: Network, payTo: string): Promise<PaymentRequirements[]> =>
    server.buildPaymentRequirements({ scheme: "exact", network, payTo, price: PRICE.money });
  const offers = new Map([
    ["/evm", await requirementsOf(evm.network, evm.payTo)],
    ["/svm", await requirementsOf(svm.network, svm.payTo)],
  ]);
  return listen(0, async (request, response) => {
    const [requirement] = offers.get(request.url ?? "") ?? [];
    if (requirement === undefined) return sendJson(response, 404, {});
    const header = request.headers["payment-signature"];
    if (typeof header !== "string") {
      const challenge = await server.createPaymentRequiredResponse([requirement], {
        url: `http://${request.headers.host}${request.url}`,
        description: "",
        mimeType: "",
      });
      response.setHeader("PAYMENT-REQUIRED", encodePaymentRequiredHeader(challenge));
      return sendJson(response, 402, {});
    }
    const payment = decodePaymentSignatureHeader(header);
    const verified = await server.verifyPayment(payment, requirement);
    if (!verified.isValid) return sendJson(response, 402, { error: verified.invalidReason });
    const settled = await server.settlePayment(payment, requirement);
    response.setHeader("PAYMENT-RESPONSE", encodePaymentResponseHeader(settled));
    sendJson(response, settled.success ? 200 : 402, {});
  });
}
