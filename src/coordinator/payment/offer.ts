import type { ResolvedPolicy } from "../../protocol/job.ts";
import { type Settings, SettingsError } from "../config.ts";
import { commitPrice, endpointOf } from "../pricing/index.ts";
import { feePayers } from "./fee-payers.ts";
import { type Offer, type Token, evmToken, resourceUrl, svmToken } from "./requirement.ts";

/** What a commit endpoint asks for, told to whoever asked at `requestUrl`. On EVM nobody is asked about it, on SVM the facilitator perhaps [PY12]. */
export async function offerOf(settings: Settings, policy: ResolvedPolicy, requestUrl: string): Promise<Offer> {
  const { instance, network, payment, publicHost } = settings;
  const token = await tokenOf(settings, policy);
  return { instance, network, policy, payTo: payment.payTo, token, resource: resourceUrl(endpointOf(policy), requestUrl, publicHost) };
}

async function tokenOf(settings: Settings, policy: ResolvedPolicy): Promise<Token> {
  const { asset } = settings.payment;
  if (asset !== null) return evmToken(asset);
  const mint = await mintOf(settings.network, policy);
  return svmToken(mint, (await feePayers(settings))?.quoted ?? null);
}

const mints = new Map<string, string>();

/** The mint that the scheme resolves a price in dollars to on a network [PY11]. @throws {SettingsError} for a network that it does not know */
async function mintOf(network: string, policy: ResolvedPolicy): Promise<string> {
  let mint = mints.get(network);
  if (mint === undefined) {
    // Only here, and only when first asked: it brings a good part of Solana's libraries along, and EVM instances never need it.
    const { ExactSvmScheme } = await import("@x402/svm/exact/server");
    try {
      mint = (await new ExactSvmScheme().parsePrice(commitPrice(policy), caip2(network))).asset;
    } catch {
      throw new SettingsError("Invalid setting SVM_NETWORK: payment knows no default token on it");
    }
    mints.set(network, mint);
  }
  return mint;
}

/** A network as the library's types want it. */
function caip2(network: string): `${string}:${string}` {
  const [namespace = "", reference = ""] = network.split(":");
  return `${namespace}:${reference}`;
}
