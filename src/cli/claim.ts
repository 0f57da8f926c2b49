import { pairText } from "../protocol/worker-messages.ts";
import { type KeyPair, signText } from "../receipt/ed25519.ts";
import { fingerprintOf } from "../receipt/fingerprint.ts";
import { ComputeRouterError } from "../sdk/index.ts";
import { coordinatorName } from "../worker/node/desktop-worker.ts";
import { untrusted } from "../worker/node/printable.ts";
import { shortKey } from "../worker/node/status-line.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { asking } from "./seeker.ts";
import { coordinatorUrls } from "./url-option.ts";

/** A pairing that was made. `pairedAt` is ISO 8601. */
export type Claimed = { coordinator: string; pairedAt: string };

/** Claims a pairing code for a worker's key, at the first of these coordinators that knows it. Throws CliError. */
export async function claimPairing(urls: readonly (string | undefined)[], key: KeyPair, text: string): Promise<Claimed> {
  const code = text.trim().toUpperCase();
  let failure = new CliError(EXIT.usage, "no coordinator to claim the code at");
  const asked: string[] = [];
  for (const url of urls) {
    try {
      const { paired_at } = await claimAt(url, key, code);
      return { coordinator: coordinatorName(coordinatorUrls(url).socket), pairedAt: paired_at };
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      asked.push(coordinatorName(coordinatorUrls(url).socket));
      const reason = error.cause instanceof ComputeRouterError ? error.cause.reason : null;
      // The code may be another coordinator's, and one that could not be asked may be the one that knows it.
      if (reason !== "invalid_code" && error.exit !== EXIT.unreachable) throw error;
      if (failure.exit !== EXIT.unreachable) failure = error;
    }
  }
  if (asked.length < 2) throw failure;
  throw new CliError(failure.exit, `${failure.message}\nasked: ${asked.join(", ")}`, { cause: failure });
}

/** What the worker's owner sees. The user id is a secret of the other side: it is not shown. */
export function pairedText(paired: string, publicKey: string): string {
  return `${untrusted(paired)}: worker ${fingerprintOf(publicKey)} (key ${shortKey(publicKey)}) may now run that user's PRIVATE jobs\nThe user sees the same words; if not, it is another worker.`;
}

function claimAt(url: string | undefined, { publicKey, secret }: KeyPair, code: string): Promise<{ paired_at: string }> {
  return asking({ url, user: "claim" }, async (client) => {
    // The network is signed too: the same code may exist on the other instance [TR4].
    const { network } = await client.health();
    const signature = signText(pairText({ network, code, pubkey: publicKey }), secret);
    return client.trust.claim({ pairing_code: code, provider_pubkey: publicKey, signature });
  });
}
