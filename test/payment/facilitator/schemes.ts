import { AsyncLocalStorage } from "node:async_hooks";
import type { KeyPairSigner } from "@solana/kit";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { type FacilitatorSvmSigner, toFacilitatorSvmSigner } from "@x402/svm";
import { ExactSvmScheme } from "@x402/svm/exact/facilitator";
import type { EvmChain } from "../evm/chain.ts";
import type { SvmChain } from "../svm/chain.ts";

const FEES = { maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 10n ** 9n } as const;

type EvmSigner = Parameters<typeof toFacilitatorEvmSigner>[0];

/** Where the money is. */
export type Chains = { evm?: EvmChain | undefined; svm?: SvmChain | undefined };

/** Code run inside does not wait for confirmations: its settlements end in `settlement_pending`. */
export const impatient = new AsyncLocalStorage<true>();

/** x402's own facilitator over the lab's chains. */
export function facilitatorOf({ evm, svm }: Chains, confirmationTimeoutMs: number): x402Facilitator {
  const facilitator = new x402Facilitator();
  if (evm !== undefined) facilitator.register(evm.network, new ExactEvmScheme(toFacilitatorEvmSigner(evmSigner(evm), { confirmationTimeoutMs })));
  if (svm !== undefined) facilitator.register(svm.network, new ExactSvmScheme(svmSigner(svm)));
  return facilitator;
}

/** One key whose transactions go out in order: gas is asked for first, so that a call that would revert takes no nonce. */
function evmSigner({ clients, facilitator: account }: EvmChain): EvmSigner {
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
      return reader.waitForTransactionReceipt(call);
    },
  };
}

/** Several fee payers behind one signer: x402's own takes one. */
function svmSigner({ feePayers, rpcUrl }: SvmChain): FacilitatorSvmSigner {
  const signers = new Map(feePayers.map((signer) => [signer.address, signerOf(signer, rpcUrl)]));
  const [first] = signers.values();
  if (first === undefined) throw new Error("a facilitator needs a fee payer");
  return {
    ...first,
    getAddresses: () => [...signers.keys()],
    signTransaction(transaction, feePayer, network) {
      const signer = signers.get(feePayer);
      if (signer === undefined) throw new Error(`no key of fee payer ${feePayer}`);
      return signer.signTransaction(transaction, feePayer, network);
    },
    async confirmTransaction(signature, network) {
      if (impatient.getStore()) throw new Error("the lab does not wait for this confirmation");
      await first.confirmTransaction(signature, network);
    },
  };
}

function signerOf(signer: KeyPairSigner, defaultRpcUrl: string): FacilitatorSvmSigner {
  return toFacilitatorSvmSigner(signer, { defaultRpcUrl });
}
