/**
 * Pays an SVM instance: a transfer of an SPL token, signed by a signer of @solana/kit. Needs the packages @x402/svm and @solana/kit.
 * @module
 */
import { checkNames, optionNames } from "../check.ts";
import { InvalidOptionError } from "../errors.ts";
import type { PaymentHook } from "../payment.ts";
import { chooseOffer, hookOf, readMaxPrice, type SpendLimit } from "./spend.ts";
import type { PaymentSigner, PaymentTerms } from "./x402.ts";
import { checkTokens, SOLANA_DEVNET_USDC } from "./token.ts";

export { SOLANA_DEVNET_USDC, type PaymentToken } from "./token.ts";
export type { SpendLimit } from "./spend.ts";

/** Who pays: a signer of @solana/kit that signs transactions, such as `await createKeyPairSignerFromBytes(secret)`. */
export type SvmSigner = {
  readonly address: string;
  signTransactions(transactions: readonly never[]): Promise<readonly object[]>;
};

/** Options of `payWithSvm`. */
export type SvmOptions = SpendLimit & {
  /** A JSON-RPC endpoint of the chain: the newest blockhash and the token's decimals are read there. Default: the public one of the network. */
  rpcUrl?: string;
};

const NAMES = optionNames<SvmOptions>({ tokens: 0, maxPrice: 0, rpcUrl: 0 });

/** What is used of @x402/svm, in our own types: those of the package need @solana/kit to be read. */
type Transfer = { sign(signer: SvmSigner, terms: PaymentTerms, rpcUrl: string | undefined): Promise<{ payload: Record<string, unknown> }> };

/**
 * A payment hook for `new ComputeRouter({ payment })`. Pays only in the tokens of `options.tokens` (default: USDC on Solana's devnet) and at most
 * `options.maxPrice` (default $0.10) at a time; anything else is a PaymentLimitError before the signer is asked to sign.
 * Throws InvalidOptionError.
 */
export function payWithSvm(signer: SvmSigner, options?: SvmOptions): PaymentHook {
  return hookOf(svmSigner(signer, options));
}

/** The same as a signer for `createPayment`. Throws InvalidOptionError. */
export function svmSigner(signer: SvmSigner, given?: SvmOptions): PaymentSigner {
  const options = checkNames("options of payWithSvm", given, NAMES) ?? {};
  const { tokens = [SOLANA_DEVNET_USDC], rpcUrl } = options;
  checkTokens(tokens, /^[1-9A-HJ-NP-Za-km-z]{32,44}$/);
  const maxPrice = readMaxPrice(options.maxPrice);
  if (typeof signer?.signTransactions !== "function") throw new InvalidOptionError("signer", "must be a signer of @solana/kit that signs transactions");
  return async (offers) => {
    const accepted = chooseOffer(offers, tokens, maxPrice);
    const { payload } = await (await loadTransfer()).sign(signer, accepted, rpcUrl);
    return { accepted, payload };
  };
}

/** Not imported at the top: whoever pays on the EVM need not have the packages. */
async function loadTransfer(): Promise<Transfer> {
  try {
    const { ExactSvmScheme } = await import("@x402/svm/exact/client");
    type Signer = SvmSigner & ConstructorParameters<typeof ExactSvmScheme>[0];
    type Terms = PaymentTerms & Parameters<InstanceType<typeof ExactSvmScheme>["createPaymentPayload"]>[1];
    return {
      sign: (signer: Signer, terms: Terms, rpcUrl) => new ExactSvmScheme(signer, rpcUrl === undefined ? {} : { rpcUrl }).createPaymentPayload(2, terms),
    };
  } catch (cause) {
    const error = new InvalidOptionError("payment", "on the SVM needs two more packages: npm install @x402/svm @solana/kit");
    error.cause = cause;
    throw error;
  }
}
