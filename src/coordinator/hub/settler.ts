import { WorkerEntrypoint } from "cloudflare:workers";
import { settlePayment, type SettleOutcome } from "../payment/facilitator.ts";

/**
 * How the hub settles payments that no request settles: held, retried and orphaned ones [PY7]. Each call is an invocation of its own, because one invocation
 * may have only a few connections open at once, and the hub is one invocation for everyone. No route leads here: only this Worker can call it.
 */
export class Settler extends WorkerEntrypoint {
  settle(...call: Parameters<typeof settlePayment>): Promise<SettleOutcome> {
    return settlePayment(...call);
  }
}
