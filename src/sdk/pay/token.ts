import { isSameAddress } from "../../protocol/text.ts";
import { InvalidOptionError } from "../errors.ts";

/** A token on a chain. */
export type PaymentToken = {
  /** CAIP-2 id of the chain, as `eip155:10143`. */
  network: string;
  /** Address of the token contract, or of the mint. */
  asset: string;
};

/** USDC on the Monad testnet: the default token of the EVM instance. */
export const MONAD_TESTNET_USDC = { network: "eip155:10143", asset: "0x534b2f3A21130d7a60830c2Df862319e593943A3" } as const satisfies PaymentToken;

/** USDC on the devnet of Solana: the default token of the SVM instance. */
export const SOLANA_DEVNET_USDC = {
  network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
  asset: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
} as const satisfies PaymentToken;

/** USDC on Solana itself. */
const SOLANA_USDC: PaymentToken = { network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGkZwyTDt1v" };

/** The token of an offer that does not name one, as in the 402 body of the SVM instance: the USDC of its network. */
export function defaultAsset(network: unknown): string | undefined {
  return [SOLANA_DEVNET_USDC, SOLANA_USDC].find((token: PaymentToken) => token.network === network)?.asset;
}

/** True if an offer is in this token. */
export function isToken(offer: PaymentToken, { network, asset }: PaymentToken): boolean {
  return offer.network === network && isSameAddress(offer.asset, asset);
}

/** Checks the tokens of an option. Throws InvalidOptionError. */
export function checkTokens(value: unknown, address: RegExp): void {
  const isGood = (token: PaymentToken | null): boolean => typeof token?.network === "string" && typeof token.asset === "string" && address.test(token.asset);
  if (Array.isArray(value) && value.length > 0 && value.every(isGood)) return;
  throw new InvalidOptionError("tokens", "must be a list of { network, asset } with addresses of this chain");
}
