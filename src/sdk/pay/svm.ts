/**
 * Pays an SVM instance with a transfer of an SPL token that a signer of @solana/kit signs. It needs the packages @x402/svm and @solana/kit.
 * @module
 */
import { checkNames, optionNames } from "../check.ts";
import { InvalidOptionError } from "../errors.ts";
import { type PaymentHook, readMaxPrice } from "../payment.ts";
import { checkTokens, chooseOffer, DEFAULT_MAX_PRICE, hookOf, type SpendLimit } from "./spend.ts";
import { SOLANA_DEVNET_USDC, type PaymentSigner, type PaymentTerms } from "./x402.ts";

export { SOLANA_DEVNET_USDC, type PaymentToken } from "./x402.ts";
export type { SpendLimit } from "./spend.ts";

/** The signer that pays: a transaction signer of @solana/kit, such as `await createKeyPairSignerFromBytes(secret)`. */
export type SvmSigner = {
  readonly address: string;
  signTransactions(transactions: readonly never[]): Promise<readonly object[]>;
};

/** Options of `payWithSvm`. */
export type SvmOptions = SpendLimit & {
  /** A JSON-RPC endpoint of the chain, for the newest blockhash and the token's decimals. Default: the public endpoint of the network. */
  rpcUrl?: string;
};

const NAMES = optionNames<SvmOptions>({ tokens: 0, maxPrice: 0, rpcUrl: 0 });

/** The part of @x402/svm that is used here. The package's own types cannot be loaded without @solana/kit. */
type Transfer = { sign(signer: SvmSigner, terms: PaymentTerms, rpcUrl: string | undefined): Promise<{ payload: Record<string, unknown> }> };

/**
 * Makes a payment hook for `new ComputeRouter({ payment })`. It pays only with the tokens of `options.tokens` (default: USDC on Solana's devnet), and at most
 * `options.maxPrice` (default $0.10) per payment.
 *
 * @param signer signs the transactions
 * @param options tokens, the highest price and the RPC endpoint
 * @returns the hook; for any other token or a higher price it throws PaymentLimitError before the signer signs, and InvalidOptionError if one of the two
 *   packages is missing
 * @throws InvalidOptionError for a wrong signer or option
 * @example
 * const payment = payWithSvm(await createKeyPairSignerFromBytes(secret));
 * const router = new ComputeRouter({ instance: "svm", payment });
 */
export function payWithSvm(signer: SvmSigner, options?: SvmOptions): PaymentHook {
  return hookOf(svmSigner(signer, options));
}

/**
 * Makes a signer for `createPayment`, with the same limits as {@link payWithSvm}.
 *
 * @param signer signs the transactions
 * @param given tokens, the highest price and the RPC endpoint
 * @returns chooses an offer and signs its transfer (x402 scheme `exact` on Solana)
 * @throws InvalidOptionError for a wrong signer or option
 * @example
 * const payment = await createPayment(readPaymentRequired(response.headers), svmSigner(signer));
 */
export function svmSigner(signer: SvmSigner, given?: SvmOptions): PaymentSigner {
  const options = checkNames("options of payWithSvm", given, NAMES) ?? {};
  const { tokens = [SOLANA_DEVNET_USDC], rpcUrl } = options;
  checkTokens(tokens, /^[1-9A-HJ-NP-Za-km-z]{32,44}$/);
  const maxPrice = readMaxPrice(options.maxPrice ?? DEFAULT_MAX_PRICE);
  if (typeof signer?.signTransactions !== "function") throw new InvalidOptionError("signer", "must be a signer of @solana/kit that signs transactions");
  return async (offers) => {
    const accepted = chooseOffer(offers, tokens, maxPrice);
    const { payload } = await (await loadTransfer()).sign(signer, accepted, rpcUrl);
    return { accepted, payload };
  };
}

/** Loads @x402/svm on first use, because a user who pays on the EVM does not need the package. */
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
