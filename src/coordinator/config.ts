// The settings of an instance: reads its environment variables and checks each one. Every request needs them before anything else.
import * as z from "zod";
import { describeIssues, ruleOf } from "../protocol/issues.ts";
import { LIMITS, RATES } from "../protocol/limits.ts";
import { solanaUsdc } from "../protocol/pricing.ts";
import { isLoopback } from "../protocol/text.ts";
import { DAY, HOUR, RETENTION } from "../protocol/times.ts";
import { addressBytes, isEvmAddress } from "./chain/addresses.ts";
import type { Hub } from "./hub/rpc.ts";
import { logWarning } from "./log.ts";

/** The bindings and variables of a coordinator, as its wrangler file declares them. Each variable is text, a number, a boolean, or absent. */
export type Env = {
  /** The Durable Object namespace of the hub, typed by the interface that the router calls. */
  HUB: { getByName(name: string): Hub };
  DB: D1Database;
  /** The files of the browser pages. Absent if this deployment has none. */
  PAGES?: Fetcher;
  [variable: string]: unknown;
};

/** How one instance is paid. `asset` is the token contract on EVM, and null on SVM, where the payment scheme finds the token. */
export type PaymentSettings = {
  payTo: string;
  facilitator: string;
  /** The `Authorization` header for the facilitator, a secret; null if it needs none. */
  authorization: string | null;
  asset: { address: string; name: string; version: string } | null;
  /** The JSON-RPC of the chain, which decides about payments in doubt; null if none is set [PY8]. It may contain a key and is never logged. */
  rpcUrl: string | null;
};

/** Where the stakes of workers are read [ST1]. `rpcUrl` may contain a key and is never logged. */
export type StakeSettings =
  | { source: "none" }
  | { source: "table" }
  /** The contract counts the smallest units of the token, which has `decimals` decimal places. */
  | { source: "evm"; rpcUrl: string; contract: string; decimals: number }
  | { source: "svm"; rpcUrl: string; mint: string };

/** The settings of one instance. Durations are in ms. */
export type Settings = {
  instance: "evm" | "svm";
  network: string;
  testnetMode: boolean;
  workerAuth: "required" | "optional";
  receiptPolicy: "strict" | "record";
  rateLimits: boolean;
  publicHost: string | null;
  /** True for a coordinator on somebody's own machine: `publicHost` is a loopback name. */
  local: boolean;
  trustedIpHeader: string | null;
  stake: StakeSettings;
  payment: PaymentSettings;
  /** The size in bytes of the hub's SQLite, or of D1, at which no more commits are accepted [LM3]. */
  storageBytes: number;
  /** The size of the hub's queue [LM1]. */
  queue: { jobs: number; bytes: number; jobsPerUser: number };
  retention: Record<keyof typeof RETENTION, number>;
  rates: Record<keyof typeof RATES, number>;
};

/** Thrown when a variable is wrong. The message names the variable and never contains its value. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
  /** The same message: it is safe to log. */
  readonly safeReason: string;

  constructor(message: string) {
    super(message);
    this.safeReason = message;
  }
}

/** Placeholder payees. Nobody can receive money there, so a coordinator that still has one logs a warning. */
const PLACEHOLDER_PAY_TO = { evm: "0x0000000000000000000000000000000000000000", svm: "11111111111111111111111111111111" } as const;

/** Only the text `true` switches a flag on: a typing mistake must never open the payment gate [SPEC "Authentication"]. */
const flag = z
  .string()
  .default("false")
  .transform((value) => value === "true");
const address = z.string().refine(isEvmAddress, "must be an address: 0x and 40 hex digits (capital letters must match the EIP-55 checksum)");
const base58 = z.string().refine((text) => addressBytes(text) !== null, "must be a Solana address: 32 bytes in base58");
/** The value of an `Authorization` header. It must never be logged. */
const credentials = z.string().regex(/^[\x20-\x7e]+$/, "must be the value of an Authorization header");
const url = z.url({ protocol: /^https?$/, error: "must be an http(s) URL" });
const duration = (unit: number, fallback: number) =>
  z
    .string()
    .regex(/^\d+(\.\d+)?$/, "must be a number, 0 or more")
    .transform((text) => Number(text) * unit)
    .default(fallback);
const count = (fallback: number) => z.string().regex(/^\d+$/, "must be a whole number, 0 or more").transform(Number).default(fallback);

/** `fetch` rejects every request to a URL with a user or password in it, so such a setting could never work. */
const rpcUrl = url.refine(
  (text) => !URL.canParse(text) || (new URL(text).username === "" && new URL(text).password === ""),
  "must be without user and password",
);
/** The address of a facilitator: those of its endpoints begin with it. */
const facilitatorUrl = rpcUrl.refine((text) => !/[?#]/.test(text), "must be without query and fragment");
/** At most 77: 10^77 is the largest power of ten that fits in a uint256. */
const decimals = z
  .string()
  .regex(/^([0-9]|[1-6][0-9]|7[0-7])$/, "must be a whole number from 0 to 77")
  .transform(Number);

const NO_HOST = "must be a host, without scheme or path";

/** A host as a URL has it: in lower case, without the port of its scheme. Workers sign it in this form [WS2]. */
function asHost(text: string): string {
  const { hostname, host } = new URL(`https://${text}`);
  return isLoopback(hostname) ? new URL(`http://${text}`).host : host;
}

/** The name of the setting of a rate: that of `trustPerMinute` is TRUST_PER_MINUTE. */
function settingOf(rate: string): string {
  return rate.replaceAll(/[A-Z]/g, "_$&").toUpperCase();
}

const RateVariables = Object.fromEntries(Object.entries(RATES).map(([rate, fallback]) => [settingOf(rate), count(fallback)]));

const Variables = z.object({
  INSTANCE: z.enum(["evm", "svm"]),
  TESTNET_MODE: flag,
  WORKER_AUTH: z.enum(["required", "optional"]).optional(),
  RECEIPT_POLICY: z.enum(["strict", "record"]).optional(),
  RATE_LIMITS: z.enum(["on", "off"]).optional(),
  PUBLIC_HOST: z
    .string()
    .regex(/^[^\s/@?#\\]+$/, NO_HOST)
    .refine((host) => URL.canParse(`https://${host}`), NO_HOST)
    .transform(asHost)
    .optional(),
  TRUSTED_IP_HEADER: z
    .string()
    .regex(/^[A-Za-z0-9-]+$/, "must be a header name")
    .refine(
      (name) => name.toLowerCase() !== "forwarded",
      "must be a header whose last entry is an address, such as X-Forwarded-For; Forwarded has another form",
    )
    .optional(),
  STAKE_SOURCE: z.enum(["none", "table", "evm", "svm"]).default("none"),
  EVM_RPC_URL: rpcUrl.optional(),
  EVM_STAKE_CONTRACT: address.optional(),
  EVM_STAKE_DECIMALS: decimals.default(18),
  SVM_RPC_URL: rpcUrl.optional(),
  SVM_STAKE_MINT: base58.optional(),
  EVM_NETWORK: z
    .string()
    .regex(/^eip155:[1-9]\d{0,31}$/, "must be a CAIP-2 chain id of an EVM chain: eip155:<number>")
    .default("eip155:10143"),
  EVM_PAY_TO: address.default(PLACEHOLDER_PAY_TO.evm),
  EVM_FACILITATOR: facilitatorUrl.default("https://x402-facilitator.molandak.org"),
  EVM_FACILITATOR_AUTHORIZATION: credentials.optional(),
  EVM_USDC: address.default("0x534b2f3A21130d7a60830c2Df862319e593943A3"),
  EVM_USDC_NAME: z.string().min(1).default("USDC"),
  EVM_USDC_VERSION: z.string().min(1).default("2"),
  SVM_NETWORK: z
    .string()
    .regex(/^solana:[-_a-zA-Z0-9]{1,32}$/, "must be a CAIP-2 chain id of Solana: solana:<reference>")
    .default("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"),
  SVM_PAY_TO: base58.default(PLACEHOLDER_PAY_TO.svm),
  SVM_FACILITATOR: facilitatorUrl.default("https://www.x402.org/facilitator"),
  SVM_FACILITATOR_AUTHORIZATION: credentials.optional(),
  RETENTION_RESULT_DAYS: duration(DAY, RETENTION.result),
  RETENTION_JOB_DAYS: duration(DAY, RETENTION.job),
  IDEMPOTENCY_HOURS: duration(HOUR, RETENTION.idempotency),
  EXPIRED_CODE_HOURS: duration(HOUR, RETENTION.expiredCode),
  RETENTION_PAIRING_DAYS: duration(DAY, RETENTION.pairing),
  STORAGE_BYTES: count(LIMITS.storageBytes),
  QUEUED_JOBS: count(LIMITS.queuedJobs),
  QUEUED_BYTES: count(LIMITS.queuedPayloadBytes),
  QUEUED_JOBS_PER_USER: count(LIMITS.queuedJobsPerUser),
  ...RateVariables,
});

/** The names of all settings. */
export const SETTING_NAMES: readonly string[] = Object.keys(Variables.shape);

/** The mint of the token in which jobs are paid on a network of Solana [PY11]. @throws {SettingsError} if none is known there */
export function mintOf(network: string): string {
  const mint = solanaUsdc(network);
  if (mint === null) throw new SettingsError("Invalid setting SVM_NETWORK: there is no default payment token for this network");
  return mint;
}

const settingsCache = new WeakMap<object, Settings>();

/** Returns the settings of `env`. They are read once per isolate. @throws {SettingsError} */
export function settingsOf(env: Env): Settings {
  let settings = settingsCache.get(env);
  if (settings === undefined) settingsCache.set(env, (settings = readSettings(env)));
  return settings;
}

/** Reads the settings of an instance. @throws {SettingsError} if a variable is wrong; it names each of them */
export function readSettings(env: Record<string, unknown>): Settings {
  const parsed = Variables.safeParse(presentIn(env));
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${ruleOf(issue)}`);
    throw new SettingsError(`Invalid setting ${problems.join("; ")}`);
  }
  const v = parsed.data;
  const evm = v.INSTANCE === "evm";
  // Here and not at the first commit: a coordinator that cannot take payments must not look healthy.
  if (!evm && !v.TESTNET_MODE) mintOf(v.SVM_NETWORK);
  return {
    instance: v.INSTANCE,
    network: evm ? v.EVM_NETWORK : v.SVM_NETWORK,
    testnetMode: v.TESTNET_MODE,
    workerAuth: v.WORKER_AUTH ?? (v.TESTNET_MODE ? "optional" : "required"),
    receiptPolicy: v.RECEIPT_POLICY ?? (v.TESTNET_MODE ? "record" : "strict"),
    rateLimits: (v.RATE_LIMITS ?? (v.TESTNET_MODE ? "off" : "on")) === "on",
    publicHost: v.PUBLIC_HOST ?? null,
    local: URL.canParse(`http://${v.PUBLIC_HOST ?? ""}`) && isLoopback(new URL(`http://${v.PUBLIC_HOST}`).hostname),
    trustedIpHeader: v.TRUSTED_IP_HEADER ?? null,
    stake: stakeOf(v),
    payment: evm
      ? {
          payTo: v.EVM_PAY_TO,
          facilitator: v.EVM_FACILITATOR,
          authorization: v.EVM_FACILITATOR_AUTHORIZATION ?? null,
          asset: { address: v.EVM_USDC, name: v.EVM_USDC_NAME, version: v.EVM_USDC_VERSION },
          rpcUrl: v.EVM_RPC_URL ?? null,
        }
      : {
          payTo: v.SVM_PAY_TO,
          facilitator: v.SVM_FACILITATOR,
          authorization: v.SVM_FACILITATOR_AUTHORIZATION ?? null,
          asset: null,
          rpcUrl: v.SVM_RPC_URL ?? null,
        },
    storageBytes: v.STORAGE_BYTES,
    queue: { jobs: v.QUEUED_JOBS, bytes: v.QUEUED_BYTES, jobsPerUser: v.QUEUED_JOBS_PER_USER },
    retention: {
      result: v.RETENTION_RESULT_DAYS,
      job: v.RETENTION_JOB_DAYS,
      idempotency: v.IDEMPOTENCY_HOURS,
      expiredCode: v.EXPIRED_CODE_HOURS,
      pairing: v.RETENTION_PAIRING_DAYS,
    },
    rates: ratesOf(v),
  };
}

function ratesOf(v: Record<string, unknown>): Settings["rates"] {
  const rates: Settings["rates"] = { ...RATES };
  return Object.assign(rates, Object.fromEntries(Object.keys(RATES).map((rate) => [rate, v[settingOf(rate)]])));
}

/** Settings whose values may contain a key or a password. */
const SECRET = /_(AUTHORIZATION|RPC_URL|FACILITATOR)$/;

/** Describes what is wrong with settings to the person who typed them; null if nothing is. It shows their values, except those that may be secret. */
export function wrongSettings(variables: Record<string, unknown>): string | null {
  const given = presentIn(variables);
  const parsed = Variables.safeParse(given);
  if (parsed.success) return null;
  return describeIssues(parsed.error, Object.fromEntries(Object.entries(given).map(([name, value]) => [name, SECRET.test(name) ? "" : value])));
}

const warned = new WeakSet<Settings>();

/** Warns once per isolate if the payee is still the placeholder: nobody can pay such an instance. */
export function warnOfPlaceholder(settings: Settings): void {
  const { instance, network, testnetMode, payment } = settings;
  if (testnetMode || warned.has(settings) || payment.payTo !== PLACEHOLDER_PAY_TO[instance]) return;
  warned.add(settings);
  logWarning("placeholder_pay_to", { instance, network, setting: instance === "evm" ? "EVM_PAY_TO" : "SVM_PAY_TO", pay_to: payment.payTo });
}

/**
 * Returns the variables that are set, as text: an empty one counts as absent, and a wrangler file may have numbers and booleans. Any other value is refused
 * later.
 */
function presentIn(env: Record<string, unknown>): Record<string, unknown> {
  const values = SETTING_NAMES.map((name) => [name, textOf(env[name])] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined && value !== ""));
}

function textOf(value: unknown): unknown {
  return typeof value === "number" || typeof value === "boolean" ? String(value) : value;
}

function stakeOf(v: z.infer<typeof Variables>): StakeSettings {
  switch (v.STAKE_SOURCE) {
    case "none":
    case "table":
      return { source: v.STAKE_SOURCE };
    case "evm": {
      const { EVM_RPC_URL: rpcUrl, EVM_STAKE_CONTRACT: contract, EVM_STAKE_DECIMALS } = v;
      if (rpcUrl === undefined || contract === undefined) throw missing(v, "EVM_RPC_URL", "EVM_STAKE_CONTRACT");
      return { source: "evm", rpcUrl, contract, decimals: EVM_STAKE_DECIMALS };
    }
    case "svm": {
      const { SVM_RPC_URL: rpcUrl, SVM_STAKE_MINT } = v;
      if (rpcUrl === undefined || SVM_STAKE_MINT === undefined) throw missing(v, "SVM_RPC_URL", "SVM_STAKE_MINT");
      return { source: "svm", rpcUrl, mint: SVM_STAKE_MINT };
    }
    default:
      return v.STAKE_SOURCE satisfies never;
  }
}

function missing(v: z.infer<typeof Variables>, ...needed: (keyof typeof v)[]): SettingsError {
  const problems = needed.filter((name) => v[name] === undefined).map((name) => `${name}: is needed by STAKE_SOURCE=${v.STAKE_SOURCE}`);
  return new SettingsError(`Invalid setting ${problems.join("; ")}`);
}
