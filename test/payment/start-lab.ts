// Starts the payment lab: both local chains, the facilitator and their people.
import { type Address, getBase58Decoder, getBase58Encoder } from "@solana/kit";
import { startControl } from "./control.ts";
import { type EvmChain, type EvmOptions, startEvmChain } from "./evm/chain.ts";
import { TOKEN_NAME, TOKEN_VERSION } from "./evm/token.ts";
import { type Facilitator, type FacilitatorOptions, startFacilitator } from "./facilitator/server.ts";
import type { Chains } from "./facilitator/schemes.ts";
import { type Role, secretOf } from "./keys.ts";
import type { Challenge } from "./pay/challenge.ts";
import { pay, type Payment, type PayOptions } from "./pay/pay.ts";
import { startSvmChain, type SvmChain, type SvmOptions } from "./svm/chain.ts";

/** What the lab starts with. */
export type LabOptions = {
  /** False for none. */
  evm?: EvmOptions | false;
  /** False for none. */
  svm?: SvmOptions | false;
  facilitator?: FacilitatorOptions;
  /** Port of the control server; null (default) for none. */
  controlPort?: number | null;
};

/** Somebody with a key. */
export type Person = { address: string; secret: string };

/** Where everything is, and who has money; printed by `lab.ts` when ready. */
export type LabDescription = {
  facilitator: string;
  /** Of the control server. */
  control: string | null;
  evmRpc: string | null;
  svmRpc: string | null;
  /** CAIP-2 ids. */
  network: Partial<Record<"evm" | "svm", string>>;
  token: Partial<Record<"evm" | "svm", string>>;
  payTo: Partial<Record<"evm" | "svm", string>>;
  /** With money. `secret` is a private key in hex on the EVM, and the 64 bytes of a key pair in base58 on the SVM. */
  payers: Partial<Record<"evm" | "svm", Person[]>>;
  /** With less money than anything costs. */
  poor: Partial<Record<"evm" | "svm", Person>>;
  /** The settings of each instance for this world. */
  settings: Partial<Record<"evm" | "svm", Record<string, string>>>;
};

/** A running lab. */
export type Lab = Chains & {
  readonly facilitator: Facilitator;
  readonly description: LabDescription;
  /** Signs a payment for a 402. @throws when the lab has not the chain that it names */
  pay(challenge: Challenge, options?: PayOptions): Promise<Payment>;
  /** Ends everything that it started. */
  stop(): Promise<void>;
};

/** A lab with both chains. */
export type FullLab = Lab & { readonly evm: EvmChain; readonly svm: SvmChain };

/** Starts chains, facilitator and control server on the loopback interface. @throws when a part does not start; the others are ended */
export function startLab(options?: LabOptions & { evm?: EvmOptions; svm?: SvmOptions }): Promise<FullLab>;
export function startLab(options: LabOptions): Promise<Lab>;
export async function startLab(options: LabOptions = {}): Promise<Lab> {
  const parts: { stop(): Promise<void> }[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(parts.splice(0).map((part) => part.stop()));
  };
  const keep = async <T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> => {
    const part = await starting;
    parts.push(part);
    return part;
  };
  try {
    const started = await Promise.allSettled([
      options.evm === false ? undefined : keep(startEvmChain(options.evm)),
      options.svm === false ? undefined : keep(startSvmChain(options.svm)),
    ]);
    const [evm, svm] = started.map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    }) as [EvmChain | undefined, SvmChain | undefined];
    const chains: Chains = { evm, svm };
    const facilitator = await keep(startFacilitator(chains, options.facilitator));
    const description = describe(chains, facilitator);
    if (options.controlPort != null) {
      const control = await startControl(options.controlPort, chains, facilitator, () => description);
      parts.push({ stop: () => control.close() });
      description.control = control.url;
    }
    return { ...chains, facilitator, description, pay: (challenge, how) => pay(chains, challenge, how), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function describe({ evm, svm }: Chains, facilitator: Facilitator): LabDescription {
  const description: LabDescription = {
    facilitator: facilitator.url,
    control: null,
    evmRpc: evm?.rpcUrl ?? null,
    svmRpc: svm?.rpcUrl ?? null,
    network: {},
    token: {},
    payTo: {},
    payers: {},
    poor: {},
    settings: {},
  };
  if (evm !== undefined) {
    const { network, token, payTo } = evm;
    description.network.evm = network;
    description.token.evm = token;
    description.payTo.evm = payTo;
    description.payers.evm = evm.payers.map(({ address }, index) => ({ address, secret: evmSecret(`payer-${index}`) }));
    description.poor.evm = { address: evm.poor.address, secret: evmSecret("poor") };
    description.settings.evm = {
      EVM_PAY_TO: payTo,
      EVM_FACILITATOR: facilitator.url,
      EVM_USDC: token,
      EVM_USDC_NAME: TOKEN_NAME,
      EVM_USDC_VERSION: TOKEN_VERSION,
    };
  }
  if (svm !== undefined) {
    const { network, token, payTo } = svm;
    description.network.svm = network;
    description.token.svm = token;
    description.payTo.svm = payTo;
    description.payers.svm = svm.payers.map(({ address }, index) => ({ address, secret: svmSecret(`payer-${index}`, address) }));
    description.poor.svm = { address: svm.poor.address, secret: svmSecret("poor", svm.poor.address) };
    description.settings.svm = { SVM_PAY_TO: payTo, SVM_FACILITATOR: facilitator.url };
  }
  return description;
}

function evmSecret(role: Role): string {
  return `0x${secretOf(role).toString("hex")}`;
}

function svmSecret(role: Role, address: Address): string {
  return getBase58Decoder().decode(new Uint8Array([...secretOf(role), ...getBase58Encoder().encode(address)]));
}
