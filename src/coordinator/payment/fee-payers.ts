import type { SupportedResponse } from "@x402/core/types";
import type { Settings } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { askSupported } from "./facilitator.ts";

/** Who may pay the chain's fee on SVM: the one that a 402 names, and all that are as good; null where the facilitator does not say [PY11]. */
export type FeePayers = { quoted: string | null; all: readonly string[] | null };

/** How long an answer of the facilitator's counts as fresh, ms. */
const FRESH = 5 * 60_000;

/** How long a facilitator that gave no answer is not asked again, ms: a 402 must not wait for it each time [PY12]. */
const PAUSE = 15_000;

type Entry = { known: FeePayers | null; askedAt: number; answeredAt: number };
const cache = new Map<string, Entry>();

/**
 * The fee payers of an SVM instance, asked for at most every few minutes per isolate; an answer that has grown old is better than none [PY12].
 * `maxAge` (ms) is how fresh it must be at `now`.
 */
export async function feePayers({ network, payment }: Pick<Settings, "network" | "payment">, now: number, maxAge: number = FRESH): Promise<FeePayers | null> {
  const name = `${network} ${payment.facilitator}`;
  const entry = cache.get(name) ?? { known: null, askedAt: -Infinity, answeredAt: -Infinity };
  cache.set(name, entry);
  // `askedAt` is set before the answer is there: of many requests at once one asks, if there is an old answer for the others.
  const settled = entry.answeredAt >= entry.askedAt;
  if (now - entry.answeredAt < maxAge || (now - entry.askedAt < PAUSE && (entry.known !== null || !settled))) return entry.known;
  entry.askedAt = now;
  try {
    entry.known = feePayersOf(await askSupported({ payment }), network);
    entry.answeredAt = entry.askedAt = now;
  } catch (error) {
    logError("facilitator_supported", { ...errorFacts(error), reason: error instanceof Error ? error.message : null, stale: entry.known !== null });
  }
  return entry.known;
}

/** The fee payers that an answer of `/supported` names for a network. */
export function feePayersOf({ kinds, signers }: SupportedResponse, network: string): FeePayers {
  const quoted = kinds
    .filter((kind) => kind.x402Version === 2 && kind.scheme === "exact" && kind.network === network)
    .map((kind) => kind.extra?.feePayer)
    .find((feePayer) => typeof feePayer === "string");
  const family = `${network.split(":")[0]}:*`;
  const listed = [...(signers[network] ?? []), ...(signers[family] ?? [])];
  const all = listed.length === 0 ? null : [...new Set(quoted === undefined ? listed : [quoted, ...listed])];
  return { quoted: quoted ?? all?.[0] ?? null, all };
}
