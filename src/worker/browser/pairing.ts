// The pairings of a browser worker: claims a code for its key, and reads the stored pairings. PRIVATE jobs come from paired users only [TR4].
import * as z from "zod";
import { Paired } from "../../protocol/rest.ts";
import type { Result } from "../../protocol/result.ts";
import { pairText } from "../../protocol/worker-messages.ts";
import type { Signer } from "../session/executor.ts";
import type { KeptStore } from "./kept-store.ts";
import type { Pairing } from "./report.ts";

const Refusal = z.object({ error: z.string() });
const Network = z.object({ network: z.string() });

/** How long each answer may take. The page waits with its button, and a browser alone waits for minutes. */
const PATIENCE_MS = 15_000;

/** The worker that claims a code, and the coordinator that it asks. `host` is the name of the coordinator for people. */
type Claiming = { signer: Signer; host: string; ask: typeof fetch; patienceMs?: number };

/**
 * Claims a pairing code for this worker, with proof of its key. The network is signed too, because the same code may exist on the other instance [TR4]. The
 * reason of a failure is a sentence for a person.
 */
export async function claimCode(code: string, { signer, host, ask, patienceMs = PATIENCE_MS }: Claiming): Promise<Result<Pairing, string>> {
  try {
    const health = await ask("/v1/health", { signal: AbortSignal.timeout(patienceMs) });
    if (!health.ok) return { ok: false, reason: "The coordinator cannot answer at the moment. Try again soon." };
    const { network } = Network.parse(await health.json());
    const signature = await signer.sign(pairText({ network, code, pubkey: signer.publicKey }));
    const response = await ask("/v1/trust/claim", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ pairing_code: code, provider_pubkey: signer.publicKey, signature }),
      signal: AbortSignal.timeout(patienceMs),
    });
    // A proxy in front of the coordinator answers in HTML.
    const body: unknown = await response.json().catch(() => null);
    if (response.ok) return { ok: true, value: { code, pairedAt: Paired.parse(body).paired_at, network } };
    const refusal = Refusal.safeParse(body);
    return { ok: false, reason: explain(refusal.success ? refusal.data.error : "", response, host) };
  } catch {
    return { ok: false, reason: "No answer from the coordinator. Is this device online?" };
  }
}

function explain(error: string, response: Response, host: string): string {
  switch (error) {
    case "invalid_code":
      // The pages of the two instances look the same.
      return `There is no such code. Compare it with the one that you were given, and check that it was made at ${host}.`;
    case "already_claimed":
      return "This code has been used. If an earlier try got no answer, that one may have paired this worker: ask the user to compare the words. Otherwise ask for a new code.";
    case "expired":
      return "This code is older than an hour. Ask for a new one.";
    case "rate_limited":
      return `Too many requests from this network. Wait ${response.headers.get("retry-after") ?? "60"} seconds.`;
    default:
      return response.status >= 500
        ? "The coordinator cannot answer at the moment. Try again soon."
        : `The coordinator refused: ${error || `HTTP ${response.status}`}`;
  }
}

/** How many pairings are remembered, newest first. */
export const PAIRINGS = 100;

const StoredPairing = z.object({ code: z.string(), pairedAt: z.string(), network: z.string() });

/** The stored pairings, newest first. */
export async function readPairings(store: Pick<KeptStore, "all">): Promise<Pairing[]> {
  const pairings = (await store.all("pairings")).flatMap((value) => {
    const pairing = StoredPairing.safeParse(value);
    return pairing.success ? [pairing.data] : [];
  });
  return pairings.sort((a, b) => b.pairedAt.localeCompare(a.pairedAt)).slice(0, PAIRINGS);
}
