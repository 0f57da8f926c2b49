// What the chain says about payments in doubt: the contract of both chains. After a job's way: the hub reads it when the outcome of a settlement is not known.

/** A payment in doubt: it is not known whether its money has moved. */
export type Doubt = {
  key: string;
  /** JSON texts as the facilitator got them: the payment, and our terms then. */
  payload: string;
  requirements: string;
  /** When the hub treats the payment as expired, ms since the epoch. Its authorization may be good for longer. */
  expiresAt: number;
  /** A finalized block from before it was settled first; null if none was noted. */
  block: number | null;
  /** What the reading before has found; null for the first one. */
  found: Found | null;
};

/**
 * What a reading leaves for the next one: how far the chain was searched, and the finalized block at which the authorization was last seen unused. `isOlder`:
 * it was used before the block that was noted. `before`: the signature at which a search of a history goes on.
 */
export type Found = { searched: number | null; unusedAt: number | null; isOlder?: true; before?: string };

/**
 * What one reading has shown. `settled`: its money has moved to our payee. `void`: it has not, and it cannot any more, by this `proof`. `undecided`: the chain
 * does not say it yet. `more`: the search goes on at once. `fault`: what is wrong with the answers, as a code.
 */
export type ChainAnswer =
  | { kind: "settled"; transaction: string }
  | { kind: "void"; proof: "cancelled" | "used_elsewhere" | "failed" | "expired" }
  | { kind: "undecided"; found: Found | null; more: boolean; fault?: string };

/** A chain that can be read. Only its finalized blocks decide [PY8]. */
export interface ChainSource {
  /** The most payments of one `read`. */
  readonly most: number;
  /** A finalized block that is older than every payment that is verified now; null if payments need none. @throws {RpcFailure} */
  block(): Promise<number | null>;
  /** Reads what became of these payments, in a few bounded requests, and answers in the same order. `now` is ms since the epoch. @throws {RpcFailure} */
  read(doubts: readonly Doubt[], now: number): Promise<ChainAnswer[]>;
}

/** The answer of a reading that decides nothing. `found` is for the next reading; `fault` is what is wrong with the answers of the chain, as a code. */
export function undecided(found: Found | null, fault?: string): ChainAnswer {
  return { kind: "undecided", found, more: false, ...(fault !== undefined && { fault }) };
}
