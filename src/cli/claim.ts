import { pairText } from "../protocol/worker-messages.ts";
import { type KeyPair, signText } from "../receipt/ed25519.ts";
import { ComputeRouterError } from "../sdk/index.ts";
import { coordinatorName } from "../worker/node/desktop-worker.ts";
import { CliError } from "./cli-error.ts";
import { asking } from "./seeker.ts";
import { coordinatorUrls } from "./url-option.ts";

/** A pairing that was made. `pairedAt` is ISO 8601. */
export type Claimed = { coordinator: string; pairedAt: string };

/** Claims a pairing code for a worker's key, at the first of these coordinators that knows it. Throws CliError. */
export async function claimPairing(urls: readonly (string | undefined)[], key: KeyPair, text: string): Promise<Claimed> {
  const code = text.trim().toUpperCase();
  const failures: CliError[] = [];
  for (const url of urls) {
    try {
      const { paired_at } = await claimAt(url, key, code);
      return { coordinator: coordinatorName(coordinatorUrls(url).socket), pairedAt: paired_at };
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      // The code may be another coordinator's: codes are made by one of them.
      if (error.cause instanceof ComputeRouterError && error.cause.reason !== "invalid_code" && error.cause.reason !== null) throw error;
      failures.push(error);
    }
  }
  // One that could not be asked may be the one that knows it.
  throw failures.find(({ cause }) => cause instanceof ComputeRouterError && cause.reason === null) ?? failures[0];
}

function claimAt(url: string | undefined, { publicKey, secret }: KeyPair, code: string): Promise<{ paired_at: string }> {
  return asking({ url, user: "claim" }, async (client) => {
    // The network is signed too: the same code may exist on the other instance [TR4].
    const { network } = await client.health();
    const signature = signText(pairText({ network, code, pubkey: publicKey }), secret);
    return client.trust.claim({ pairing_code: code, provider_pubkey: publicKey, signature });
  });
}
