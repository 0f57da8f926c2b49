/**
 * Pays an EVM instance with an EIP-3009 authorization that an account signs, such as one of viem. It needs no package except that of the account.
 * @module
 */
import { toHex } from "../../receipt/bytes.ts";
import { checkNames } from "../check.ts";
import { InvalidOptionError, ProtocolError } from "../errors.ts";
import { type PaymentHook, readMaxPrice } from "../payment.ts";
import { checkTokens, chooseOffer, DEFAULT_MAX_PRICE, hookOf, SPEND_LIMIT, type SpendLimit } from "./spend.ts";
import { MONAD_TESTNET_USDC, type PaymentSigner, type PaymentTerms } from "./x402.ts";

export { MONAD_TESTNET_USDC, type PaymentToken } from "./x402.ts";
export type { SpendLimit } from "./spend.ts";

type Hex = `0x${string}`;

/** The EIP-712 typed data that the account signs. */
export type TransferTypedData = {
  domain: { name: string; version: string; chainId: number; verifyingContract: Hex };
  types: { TransferWithAuthorization: { name: string; type: string }[] };
  primaryType: "TransferWithAuthorization";
  message: { from: Hex; to: Hex; value: bigint; validAfter: bigint; validBefore: bigint; nonce: Hex };
};

/**
 * The account that pays. Every local account of viem fits. For a wallet client, pass
 * `{ address, signTypedData: (data) => client.signTypedData({ account, ...data }) }`.
 */
export type EvmAccount = {
  readonly address: Hex;
  signTypedData(data: TransferTypedData): Promise<Hex>;
};

/** The longest validity of an authorization, in seconds. Until it ends, everyone who has it can use it, so a router gets no longer one. */
const LONGEST = 3_600;

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;

const TRANSFER = [
  { name: "from", type: "address" },
  { name: "to", type: "address" },
  { name: "value", type: "uint256" },
  { name: "validAfter", type: "uint256" },
  { name: "validBefore", type: "uint256" },
  { name: "nonce", type: "bytes32" },
];

/**
 * Makes a payment hook for `new ComputeRouter({ payment })`. It pays only with the tokens of `options.tokens` (default: USDC on the Monad testnet), and at most
 * `options.maxPrice` (default $0.10) per payment.
 *
 * @param account signs the authorizations
 * @param options tokens and the highest price
 * @returns the hook; for any other token or a higher price it throws PaymentLimitError before the account signs, and ProtocolError for terms that cannot be
 *   signed
 * @throws InvalidOptionError for a wrong account or option
 * @example
 * const payment = payWithEvm(privateKeyToAccount(privateKey), { maxPrice: 0.02 });
 * const router = new ComputeRouter({ payment });
 */
export function payWithEvm(account: EvmAccount, options?: SpendLimit): PaymentHook {
  return hookOf(evmSigner(account, options));
}

/**
 * Makes a signer for `createPayment`, with the same limits as {@link payWithEvm}.
 *
 * @param account signs the authorizations
 * @param given tokens and the highest price
 * @returns chooses an offer and signs it (EIP-3009 `TransferWithAuthorization` as EIP-712 typed data)
 * @throws InvalidOptionError for a wrong account or option
 * @example
 * const payment = await createPayment(readPaymentRequired(response.headers), evmSigner(account));
 */
export function evmSigner(account: EvmAccount, given?: SpendLimit): PaymentSigner {
  const options = checkNames("options of payWithEvm", given, SPEND_LIMIT);
  const tokens = options?.tokens ?? [MONAD_TESTNET_USDC];
  checkTokens(tokens, ADDRESS);
  const maxPrice = readMaxPrice(options?.maxPrice ?? DEFAULT_MAX_PRICE);
  if (typeof account?.signTypedData !== "function" || !ADDRESS.test(account.address)) {
    throw new InvalidOptionError("account", "must have an address and signTypedData, as an account of viem has");
  }
  return async (offers) => {
    const accepted = chooseOffer(offers, tokens, maxPrice);
    const data = transferOf(accepted, account.address);
    const signature = await account.signTypedData(data);
    const { from, to, value, validAfter, validBefore, nonce } = data.message;
    const authorization = { from, to, value: String(value), validAfter: String(validAfter), validBefore: String(validBefore), nonce };
    return { accepted, payload: { signature, authorization } };
  };
}

/** The transfer that an offer asks for; it is valid from now on, for as long as the offer states. Throws ProtocolError for terms that cannot be signed. */
function transferOf({ network, asset, amount, payTo, maxTimeoutSeconds, extra }: PaymentTerms, from: Hex): TransferTypedData {
  const { name, version } = extra;
  const chainId = Number(/^eip155:(\d{1,15})$/.exec(network)?.[1]);
  if (!isAddress(payTo) || !isAddress(asset) || Number.isNaN(chainId) || typeof name !== "string" || typeof version !== "string") {
    throw new ProtocolError("the router's terms of payment cannot be signed: addresses, or the token's name and version, are missing or wrong", {
      status: 402,
    });
  }
  const now = Math.floor(Date.now() / 1_000);
  return {
    domain: { name, version, chainId, verifyingContract: asset },
    types: { TransferWithAuthorization: TRANSFER },
    primaryType: "TransferWithAuthorization",
    message: {
      from,
      to: payTo,
      value: BigInt(amount),
      validAfter: 0n,
      validBefore: BigInt(now + Math.min(maxTimeoutSeconds, LONGEST)),
      nonce: `0x${toHex(crypto.getRandomValues(new Uint8Array(32)))}`,
    },
  };
}

function isAddress(text: string): text is Hex {
  return ADDRESS.test(text);
}
