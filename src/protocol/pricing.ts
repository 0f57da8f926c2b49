// What a job costs, which endpoint takes it, and in which token it is paid. On a job's way: quote, commit, pay.
import type { JobType, Policy, ResolvedPolicy } from "./job.ts";
import type { Quote } from "./rest.ts";

/** The policy that `AUTO` becomes, by job type [SPEC]. */
const AUTO = { LLM_INFER: "FAST", TASK: "CHEAP" } as const satisfies Record<JobType, ResolvedPolicy>;

const ENDPOINTS = { FAST: "/v1/jobs/commit/fast", CHEAP: "/v1/jobs/commit/cheap" } as const satisfies Record<ResolvedPolicy, Quote["endpoint"]>;

/** The policy that a job of this type runs under [SPEC]. */
export function resolvePolicy(policy: Policy, jobType: JobType): ResolvedPolicy {
  return policy === "AUTO" ? AUTO[jobType] : policy;
}

/** The commit path of a policy [SPEC]. */
export function endpointOf(policy: ResolvedPolicy): Quote["endpoint"] {
  return ENDPOINTS[policy];
}

/** The paths of OpenAI's API. Both cost what FAST costs [API9]. */
export const OPENAI_ENDPOINTS = { chat: "/v1/chat/completions", completions: "/v1/completions" } as const;

/** Quoted prices in USD, by `<POLICY>_<JOB_TYPE>` [SPEC]. */
const QUOTED: ReadonlyMap<string, string> = new Map([
  ["FAST_LLM_INFER", "$0.010"],
  ["FAST_TASK", "$0.003"],
  ["CHEAP_LLM_INFER", "$0.005"],
  ["CHEAP_TASK", "$0.001"],
]);

const DEFAULT_PRICE = "$0.001";

/** What a gated commit costs in USD, for every job type [SPEC, PY1]. */
const CHARGED = { FAST: "$0.010", CHEAP: "$0.001" } as const satisfies Record<ResolvedPolicy, string>;

/** The price of a key `<POLICY>_<JOB_TYPE>`. An unknown key costs `$0.001` [SPEC, API3]. */
export function priceOf(key: string): string {
  return QUOTED.get(key) ?? DEFAULT_PRICE;
}

/** The quoted price of a job in USD, as `$0.000` [SPEC]. */
export function quotePrice(policy: ResolvedPolicy, jobType: JobType): string {
  return priceOf(`${policy}_${jobType}`);
}

/** The price in USD of a policy's commit endpoint while payment gating is on [PY1]. */
export function commitPrice(policy: ResolvedPolicy): string {
  return CHARGED[policy];
}

/**
 * The reasons of a facilitator that say that a payment has been used. They do not say by whom, so its money may have moved. On the SVM the facilitator says it
 * of a transaction that it was asked to settle before, which may still be under way [PY8].
 */
export const ALREADY_USED: readonly unknown[] = ["invalid_exact_evm_nonce_already_used", "nonce_already_used", "duplicate_settlement"];

/** USDC on Solana, by CAIP-2 id: mainnet, devnet, testnet. */
const SOLANA_USDC: ReadonlyMap<unknown, string> = new Map([
  ["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"],
  ["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"],
  ["solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"],
]);

/**
 * The mint of the token in which the scheme `exact` asks for dollars on a network of Solana; null if it knows none there [PY11]. @x402/svm has the same table,
 * and a test compares them; to load it from there would bring a large part of Solana's libraries into the bundle.
 */
export function solanaUsdc(network: unknown): string | null {
  return SOLANA_USDC.get(network) ?? null;
}
