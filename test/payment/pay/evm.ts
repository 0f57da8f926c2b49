import { randomBytes } from "node:crypto";
import type { PrivateKeyAccount } from "viem/accounts";
import { TOKEN_TYPES } from "../evm/token.ts";
import type { Requirement } from "./challenge.ts";

/** x402 clients date an authorization back by this, for clocks that differ. */
const CLOCK_SKEW_S = 600;

type Hex = `0x${string}`;

/** What an EIP-3009 authorization says; strings as x402 has them. */
export type Authorization = { from: Hex; to: Hex; value: string; validAfter: string; validBefore: string; nonce: Hex };

/** The `payload` of an exact EVM payment. */
export type EvmPayload = { signature: Hex; authorization: Authorization };

/** Signs an EIP-3009 authorization for what is required, with the changes given. The domain is the requirement's. */
export async function signEvm(payer: PrivateKeyAccount, requirement: Requirement, changes: Partial<Authorization> = {}): Promise<EvmPayload> {
  const now = Math.floor(Date.now() / 1000);
  const authorization: Authorization = {
    from: payer.address,
    to: requirement.payTo as Hex,
    value: requirement.amount,
    validAfter: String(now - CLOCK_SKEW_S),
    validBefore: String(now + requirement.maxTimeoutSeconds),
    nonce: `0x${randomBytes(32).toString("hex")}`,
    ...changes,
  };
  const { name, version } = requirement.extra as { name: string; version: string };
  const signature = await payer.signTypedData({
    domain: { name, version, chainId: Number(requirement.network.split(":")[1]), verifyingContract: requirement.asset as Hex },
    types: { TransferWithAuthorization: TOKEN_TYPES.TransferWithAuthorization },
    primaryType: "TransferWithAuthorization",
    message: {
      from: authorization.from,
      to: authorization.to,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
      nonce: authorization.nonce,
    },
  });
  return { signature, authorization };
}
