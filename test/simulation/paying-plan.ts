// The part of a seed's plan that is about payments.
import type { Random } from "./random.ts";

/** A payment and what it was signed for. Times in ms since the start of the history. */
export type Order = {
  key: string;
  payer: string;
  asset: string;
  amount: number;
  at: number;
  /** How long the authorization is good for. */
  validFor: number;
  jobType: "LLM_INFER" | "TASK";
  privacyClass: "PUBLIC" | "PRIVATE";
  userId: string;
  /** Names a payer that did not sign it. */
  forged: boolean;
  /** Requests with it, each so many ms after `at`. */
  requests: readonly { after: number; variant: Variant }[];
  /** When the payer cancels it on chain; null for never. */
  cancelAt: number | null;
};

/** What a request differs in from the first: nothing, its body, or the signature over the same authorization. */
export type Variant = "same" | "other body" | "other signature";

const TROUBLES = ["slow", "late", "hangs", "hangs dead", "error before", "error after", "loses", "refuses", "gives up", "busy"] as const;
type Trouble = (typeof TROUBLES)[number];

/** What of a history has to do with money. Chances are per request or call. */
export type PayingPlan = {
  balances: readonly (readonly [string, number])[];
  orders: readonly Order[];
  verifyTrouble: number;
  settleTrouble: number;
  settleTroubles: readonly Trouble[];
  routerDies: number;
  /** Whether routers settle what they bring, as now, or leave it to the hub, as earlier ones did. */
  routersSettle: boolean;
  /** How often a router sleeps for a minute before it goes on. */
  routerStalls: number;
  /** Whether the router can read the payer off a payload (EVM), or only the facilitator says it (SVM). */
  readsPayer: boolean;
  /** When a paid job has failed: the same request again, and a fresh payment. */
  repeats: number;
  renews: number;
  /** How often a router tells the outcome of its settle call so late that the hub may have given up. */
  reportsLate: number;
  /** How often a paid job is cancelled. */
  cancelsJobs: number;
  /** Where the chain can be read: how often its RPC is down, and how old the newest finalized block is, ms. */
  chainDown: number;
  finality: number;
  /** When the hub is deployed with the address of an RPC, ms since the start: before then it cannot read the chain. */
  chainFrom: number;
  /** How many times a second a bug tells of a settlement that nobody asked for. */
  mistakes: number;
};

/** A history in which nobody pays. */
export const UNPAID: PayingPlan = {
  balances: [],
  orders: [],
  verifyTrouble: 0,
  settleTrouble: 0,
  settleTroubles: [],
  routerDies: 0,
  routersSettle: true,
  routerStalls: 0,
  readsPayer: true,
  repeats: 0,
  renews: 0,
  reportsLate: 0,
  cancelsJobs: 0,
  chainDown: 0,
  finality: 0,
  chainFrom: 0,
  mistakes: 0,
};

const PAYERS = ["pam", "quin", "rex"] as const;
const AMOUNTS = [1_000, 10_000] as const;

/**
 * The paying half of a plan: `stalled` for a facilitator that hangs while many pay at once. Every kind of trouble is left out of some histories, so that none
 * hides another.
 */
export function payingPlanOf(random: Random, faults: number, stalled: boolean): PayingPlan {
  const some = (chance: number, high: number) => (random.chance(chance) ? random.next() * high : 0);
  const payers = stalled ? PAYERS : PAYERS.slice(0, random.pick([1, 2, 3]));
  const bursts = stalled ? [0, 0] : random.chance(0.5) ? [0, random.between(0, faults)] : null;
  const replays = some(0.8, 0.9);
  const twisted = some(0.5, 0.5);
  const cancels = some(0.3, 0.3);
  const secret = random.pick([0, 0, 0.4]);
  const forged = some(0.2, 0.3);
  const readsPayer = random.chance(0.5);
  const validFor = random.pick([45_000, 120_000, 300_000]);
  const orders = Array.from({ length: stalled ? 24 : random.between(1, random.pick([3, 12, 24])) }, (_, index): Order => {
    const requests: { after: number; variant: Variant }[] = [{ after: 0, variant: "same" }];
    const variant = () => (random.chance(twisted) ? random.pick(["other body", "other signature"] as const) : "same");
    if (random.chance(replays)) {
      const together = random.chance(0.3);
      const spread = random.pick([100, 5_000, 90_000, faults]);
      for (let n = random.pick([1, 2, 10]); n > 0; n--)
        requests.push({ after: together ? random.between(0, 5) : random.between(0, spread), variant: variant() });
    }
    const at = bursts === null ? random.between(0, faults) : random.pick(bursts) + random.between(0, 500);
    return {
      ...{ key: `k${index}`, payer: random.pick(payers), amount: random.pick(AMOUNTS), at, validFor, requests },
      jobType: random.pick(["LLM_INFER", "TASK"] as const),
      privacyClass: random.chance(secret) ? "PRIVATE" : "PUBLIC",
      userId: random.pick(["ann", "bob"] as const),
      forged: readsPayer && random.chance(forged),
      cancelAt: random.chance(cancels) ? at + random.between(0, 40_000) : null,
      asset: "usdc",
    };
  });
  const subset = TROUBLES.filter(() => random.chance(0.4));
  return {
    balances: PAYERS.map((payer) => [payer, random.chance(0.7) ? 1_000_000 : random.between(0, 30_000)] as const),
    orders,
    verifyTrouble: some(0.4, 0.5),
    settleTrouble: stalled ? 1 : random.chance(0.1) ? 0.95 : some(0.75, 1),
    settleTroubles: stalled ? ["hangs dead", "hangs"] : subset.length > 0 ? subset : TROUBLES,
    routerDies: some(0.4, 0.4),
    routersSettle: random.chance(0.7),
    routerStalls: some(0.3, 0.9),
    readsPayer,
    repeats: some(0.7, 1),
    renews: some(0.5, 0.8),
    reportsLate: 0,
    cancelsJobs: 0,
    chainDown: 0,
    finality: 0,
    chainFrom: 0,
    mistakes: 0,
  };
}
