// The payment schemes of the lab's facilitator, in several versions of the x402 packages.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Address, KeyPairSigner } from "@solana/kit";
import { x402Facilitator } from "@x402/core/facilitator";
import type { SchemeNetworkFacilitator } from "@x402/core/types";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { toFacilitatorSvmSigner } from "@x402/svm";
import { ExactSvmScheme } from "@x402/svm/exact/facilitator";
import { toFacilitatorEvmSigner as toFacilitatorEvmSigner2_20 } from "x402-evm-2.20";
import { ExactEvmScheme as ExactEvmScheme2_20 } from "x402-evm-2.20/exact/facilitator";
import { toFacilitatorSvmSigner as toFacilitatorSvmSigner2_20 } from "x402-svm-2.20";
import { ExactSvmScheme as ExactSvmScheme2_20 } from "x402-svm-2.20/exact/facilitator";
import { toFacilitatorEvmSigner as toFacilitatorEvmSigner2_3 } from "x402-evm-2.3";
import { ExactEvmScheme as ExactEvmScheme2_3 } from "x402-evm-2.3/exact/facilitator";
import { toFacilitatorSvmSigner as toFacilitatorSvmSigner2_3 } from "x402-svm-2.3";
import { ExactSvmScheme as ExactSvmScheme2_3 } from "x402-svm-2.3/exact/facilitator";
import type { EvmChain } from "../evm/chain.ts";
import type { SvmChain } from "../svm/chain.ts";

const FEES = { maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 10n ** 9n } as const;

type EvmSigner = Parameters<typeof toFacilitatorEvmSigner>[0];

/** Where the money is. */
export type Chains = { evm?: EvmChain | undefined; svm?: SvmChain | undefined };

/** The versions of @x402/evm and @x402/svm on which the facilitator can run. The first one is the newest. */
export const FACILITATOR_VERSIONS = ["2.27", "2.20", "2.3"] as const;
/** See {@link FACILITATOR_VERSIONS}. */
export type FacilitatorVersion = (typeof FACILITATOR_VERSIONS)[number];

type Schemes = { evm(signer: EvmSigner, confirmationTimeoutMs: number): SchemeNetworkFacilitator; svm(chain: SvmChain): SchemeNetworkFacilitator };

/** The exact schemes of each version. Only the newest bounds its wait for the receipt by itself; to the others {@link evmSigner} does it. */
const SCHEMES: Record<FacilitatorVersion, Schemes> = {
  "2.27": {
    evm: (signer, confirmationTimeoutMs) => new ExactEvmScheme(toFacilitatorEvmSigner(signer, { confirmationTimeoutMs })),
    svm: (chain) => new ExactSvmScheme(svmSigner(chain, toFacilitatorSvmSigner)),
  },
  "2.20": {
    evm: (signer) => new ExactEvmScheme2_20(toFacilitatorEvmSigner2_20(signer)),
    svm: (chain) => new ExactSvmScheme2_20(svmSigner(chain, toFacilitatorSvmSigner2_20)),
  },
  "2.3": {
    evm: (signer) => new ExactEvmScheme2_3(toFacilitatorEvmSigner2_3(signer)),
    svm: (chain) => new ExactSvmScheme2_3(svmSigner(chain, toFacilitatorSvmSigner2_3)),
  },
};

/** Code run inside does not wait for confirmations: its settlements end in `settlement_pending`. */
export const impatient = new AsyncLocalStorage<true>();

/** x402's own facilitator over the lab's chains, with the schemes of one version. */
export function facilitatorOf({ evm, svm }: Chains, version: FacilitatorVersion, confirmationTimeoutMs: number): x402Facilitator {
  const facilitator = new x402Facilitator();
  const schemes = SCHEMES[version];
  if (evm !== undefined) facilitator.register(evm.network, schemes.evm(evmSigner(evm, confirmationTimeoutMs), confirmationTimeoutMs));
  if (svm !== undefined) facilitator.register(svm.network, schemes.svm(svm));
  return facilitator;
}

/** One key whose transactions go out in order: gas is asked for first, so that a call that would revert takes no nonce. */
function evmSigner({ clients, facilitator: account }: EvmChain, timeout: number): EvmSigner {
  let last: Promise<unknown> = Promise.resolve();
  const inOrder = <T>(send: () => Promise<T>): Promise<T> => {
    const sent = last.then(send);
    last = sent.catch(() => {});
    return sent;
  };
  const { public: reader, wallet } = clients;
  return {
    address: account.address,
    readContract: (call) => reader.readContract({ ...call, args: call.args ?? [] }),
    verifyTypedData: (call) => reader.verifyTypedData(call as Parameters<typeof reader.verifyTypedData>[0]),
    getCode: (call) => reader.getCode(call),
    async writeContract(call) {
      const gas = call.gas ?? ((await reader.estimateContractGas({ ...call, account })) * 12n) / 10n;
      return inOrder(() => wallet.writeContract({ ...call, ...FEES, account, gas }));
    },
    async sendTransaction(call) {
      const gas = await reader.estimateGas({ ...call, account });
      return inOrder(() => wallet.sendTransaction({ ...call, ...FEES, account, gas }));
    },
    async waitForTransactionReceipt(call) {
      if (impatient.getStore()) throw new Error("the lab does not wait for this receipt");
      return reader.waitForTransactionReceipt({ timeout, ...call });
    },
  };
}

/** The members of each version's signer that are not passed on as they are. */
type SvmSigner = {
  signTransaction(transaction: string, feePayer: Address, network: string): Promise<string>;
  confirmTransaction(signature: string, network: string): Promise<void>;
};

/** Several fee payers behind one signer: x402's own takes one. */
function svmSigner<T extends SvmSigner>({ feePayers, rpcUrl }: SvmChain, signerOf: (signer: KeyPairSigner, rpc: { defaultRpcUrl: string }) => T): T {
  const signers = new Map<string, T>(feePayers.map((signer) => [signer.address, signerOf(signer, { defaultRpcUrl: rpcUrl })]));
  const [first] = signers.values();
  if (first === undefined) throw new Error("a facilitator needs a fee payer");
  return {
    ...first,
    getAddresses: () => feePayers.map(({ address }) => address),
    signTransaction(transaction: string, feePayer: Address, network: string) {
      const signer = signers.get(feePayer);
      if (signer === undefined) throw new Error(`no key of fee payer ${feePayer}`);
      return signer.signTransaction(transaction, feePayer, network);
    },
    async confirmTransaction(signature: string, network: string) {
      if (impatient.getStore()) throw new Error("the lab does not wait for this confirmation");
      await first.confirmTransaction(signature, network);
    },
  };
}
