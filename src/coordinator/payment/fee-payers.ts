import { TUNING } from "../../protocol/limits.ts";
import type { SupportedResponse } from "@x402/core/types";
import type { Settings } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { NoAnswer } from "./facilitator-client.ts";
import { askSupported } from "./facilitator.ts";

/** Who may pay the chain's fee on SVM: the one that a 402 names, and all that are as good; null where the facilitator does not say [PY11]. */
export type FeePayers = { quoted: string | null; all: readonly string[] | null };

type Entry = { known: FeePayers | null; answeredAt: number; failedAt: number; askingUntil: number };
const cache = new Map<string, Entry>();

/**
 * The fee payers of an SVM instance, asked for at most every few minutes per isolate; an answer that has grown old is better than none [PY12].
 * `maxAge` (ms) is how fresh it should be.
 */
export async function feePayers(
  settings: Pick<Settings, "network" | "payment">,
  maxAge: number = TUNING.feePayersFresh,
  clock: () => number = Date.now,
): Promise<FeePayers | null> {
  const { network, payment } = settings;
  const name = `${network} ${payment.facilitator}`;
  const entry = cache.get(name) ?? { known: null, answeredAt: -Infinity, failedAt: -Infinity, askingUntil: -Infinity };
  cache.set(name, entry);
  const now = clock();
  if (now - entry.answeredAt < maxAge || now - entry.failedAt < TUNING.feePayersPause || (entry.known !== null && now < entry.askingUntil)) return entry.known;
  entry.askingUntil = now + TUNING.feePayersAsking;
  try {
    entry.known = feePayersOf(await askSupported(settings), network);
    entry.answeredAt = clock();
  } catch (error) {
    entry.failedAt = clock();
    logError("facilitator_supported", { ...errorFacts(error), reason: error instanceof NoAnswer ? error.reason : null, stale: entry.known !== null });
  }
  entry.askingUntil = -Infinity;
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
