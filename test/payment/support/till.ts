import { randomUUID } from "node:crypto";
import { HTTPFacilitatorClient } from "@x402/core/server";
import type { PaymentPayload, PaymentRequirements, SettleResponse, VerifyResponse } from "@x402/core/types";
import { TOKEN_NAME, TOKEN_VERSION } from "../evm/token.ts";
import { challengeOfBody, type Challenge, type Requirement } from "../pay/challenge.ts";
import type { Payment } from "../pay/pay.ts";
import type { Lab } from "../start-lab.ts";

/** The side of the lab that a test is about. */
export type Side = "evm" | "svm";

/** A payee that talks to the facilitator itself, without a server in between: always in v2, always with its own terms, as the product does. */
export class Till {
  readonly #lab: Lab;
  readonly #client: HTTPFacilitatorClient;

  constructor(lab: Lab) {
    this.#lab = lab;
    this.#client = new HTTPFacilitatorClient({ url: lab.facilitator.url });
  }

  /** A challenge for the price of the cheap tier, or another amount. */
  ask(side: Side, changes: Partial<Requirement> = {}): Challenge {
    const chain = this.#lab[side];
    if (chain === undefined) throw new Error(`the lab has no ${side}`);
    const extra = side === "evm" ? { name: TOKEN_NAME, version: TOKEN_VERSION } : { feePayer: this.#lab.svm?.feePayers[0]?.address };
    const entry = {
      scheme: "exact",
      network: chain.network,
      amount: "1000",
      asset: chain.token,
      payTo: chain.payTo,
      maxTimeoutSeconds: 300,
      extra,
      ...changes,
    };
    return challengeOfBody({ accepts: [entry], resource: { url: `http://lab/${randomUUID()}` } });
  }

  verify(payment: Payment, challenge: Challenge): Promise<VerifyResponse> {
    return this.#client.verify(...this.#terms(payment, challenge));
  }

  settle(payment: Payment, challenge: Challenge): Promise<SettleResponse> {
    return this.#client.settle(...this.#terms(payment, challenge));
  }

  #terms({ payload }: Payment, { requirement }: Challenge): [PaymentPayload, PaymentRequirements] {
    const accepted = requirement as PaymentRequirements;
    return [{ x402Version: 2, accepted, payload }, accepted];
  }
}
