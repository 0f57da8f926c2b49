import { domainSeparator, hashTypedData, parseSignature, serializeSignature } from "viem";
import { afterAll, beforeAll, expect, it } from "vitest";
import { EVM_CHAIN_ID, type EvmChain, startEvmChain } from "./evm/chain.ts";
import { TOKEN_ABI, TOKEN_TYPES, tokenDomain } from "./evm/token.ts";
import { type EvmPayload, signEvm } from "./pay/evm.ts";
import type { Requirement } from "./pay/challenge.ts";

let chain: EvmChain;

beforeAll(async () => {
  chain = await startEvmChain({ payers: 2 });
});

afterAll(() => chain.stop());

function requirement(): Requirement {
  const { network, token: asset, payTo } = chain;
  return { scheme: "exact", network, amount: "1000", asset, payTo, maxTimeoutSeconds: 60, extra: { name: "USDC", version: "2" } };
}

/** Asks the token what this transfer would come to. */
async function attempt({ authorization: { from, to, value, validAfter, validBefore, nonce } }: EvmPayload, signature: `0x${string}`): Promise<string> {
  const terms = [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce] as const;
  const call = { address: chain.token, abi: TOKEN_ABI, functionName: "transferWithAuthorization", account: chain.outsider } as const;
  const calls = [chain.clients.public.simulateContract({ ...call, args: [...terms, signature] })] as Promise<unknown>[];
  if (signature.length === 132) {
    const { r, s, yParity } = parseSignature(signature);
    calls.push(chain.clients.public.simulateContract({ ...call, args: [...terms, yParity + 27, r, s] }));
  }
  const answers = await Promise.all(calls.map((asked) => asked.then(() => "ok", reasonOf)));
  expect(new Set(answers).size).toBe(1);
  return answers[0] ?? "";
}

function reasonOf(error: unknown): string {
  return /reason:\n(.*)\n/.exec((error as Error).message)?.[1] ?? (error as Error).message;
}

it("has the name, version, decimals and domain of the real USDC", async () => {
  const read = (functionName: "name" | "version" | "decimals" | "DOMAIN_SEPARATOR") =>
    chain.clients.public.readContract({ address: chain.token, abi: TOKEN_ABI, functionName });
  expect(await Promise.all([read("name"), read("version"), read("decimals")])).toEqual(["USDC", "2", 6]);
  expect(await read("DOMAIN_SEPARATOR")).toBe(domainSeparator({ domain: tokenDomain(chain.token, EVM_CHAIN_ID) }));
});

it("takes both forms of a signature", async () => {
  const payload = await signEvm(chain.payers[0]!, requirement());
  expect(await attempt(payload, payload.signature)).toBe("ok");
});

it("says why it refuses, in the words that facilitators look for", async () => {
  const [payer] = chain.payers;
  const now = Math.floor(Date.now() / 1000);
  const reason = async (changes: Parameters<typeof signEvm>[2], who = payer!): Promise<string> => {
    const payload = await signEvm(who, requirement(), changes);
    return attempt(payload, payload.signature);
  };
  expect(await reason({ validBefore: String(now - 1) })).toBe("FiatTokenV2: authorization is expired");
  expect(await reason({ validAfter: String(now + 60) })).toBe("FiatTokenV2: authorization is not yet valid");
  expect(await reason({ from: chain.outsider.address })).toBe("FiatTokenV2: invalid signature");
  expect(await reason({}, chain.poor)).toBe("ERC20: transfer amount exceeds balance");
  const cancelled = await signEvm(payer!, requirement());
  await chain.cancel(payer!, cancelled.authorization.nonce);
  expect(await attempt(cancelled, cancelled.signature)).toBe("FiatTokenV2: authorization is used or canceled");
});

it("refuses the mirror image of a signature", async () => {
  const payload = await signEvm(chain.payers[0]!, requirement());
  const { r, s, yParity } = parseSignature(payload.signature);
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  const mirrored = serializeSignature({ r, s: `0x${(order - BigInt(s)).toString(16).padStart(64, "0")}`, yParity: 1 - yParity });
  expect(await attempt(payload, mirrored)).toBe("ECRecover: invalid signature 's' value");
});

it("asks a contract wallet for its opinion (ERC-1271)", async () => {
  const payload = await signEvm(chain.payers[1]!, requirement());
  const { address } = chain.payers[1]!;
  // Answers every call with the magic value; then with nothing.
  await chain.clients.test.setCode({ address, bytecode: "0x631626ba7e60e01b60005260206000f3" });
  expect(await attempt(payload, "0x1234")).toBe("ok");
  await chain.clients.test.setCode({ address, bytecode: "0x00" });
  expect(await attempt(payload, "0x1234")).toBe("FiatTokenV2: invalid signature");
  await chain.clients.test.setCode({ address, bytecode: "0x" });
});

it("lets only the payee receive with an authorization, and no other authorization be received so", async () => {
  const [payer] = chain.payers;
  const { authorization } = await signEvm(payer!, requirement(), { to: chain.outsider.address });
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const message = { from, to, value: BigInt(value), validAfter: BigInt(validAfter), validBefore: BigInt(validBefore), nonce };
  const typed = { domain: tokenDomain(chain.token, EVM_CHAIN_ID), types: TOKEN_TYPES, primaryType: "ReceiveWithAuthorization", message } as const;
  expect(hashTypedData(typed)).not.toBe(hashTypedData({ ...typed, primaryType: "TransferWithAuthorization" }));
  const receive = async (caller: typeof payer, signature: `0x${string}`): Promise<string> =>
    chain.clients.public
      .simulateContract({
        address: chain.token,
        abi: TOKEN_ABI,
        functionName: "receiveWithAuthorization",
        account: caller!,
        args: [from, to, message.value, message.validAfter, message.validBefore, nonce, signature],
      })
      .then(() => "ok", reasonOf);
  const signature = await payer!.signTypedData(typed);
  expect(await receive(chain.outsider, signature)).toBe("ok");
  expect(await receive(payer, signature)).toBe("FiatTokenV2: caller must be the payee");
  expect(await receive(chain.outsider, await payer!.signTypedData({ ...typed, primaryType: "TransferWithAuthorization" }))).toBe(
    "FiatTokenV2: invalid signature",
  );
});

it("lets nobody but its minter make money", async () => {
  const minting = chain.clients.public.simulateContract({
    address: chain.token,
    abi: TOKEN_ABI,
    functionName: "mint",
    args: [chain.outsider.address, 1n],
    account: chain.payers[0]!,
  });
  await expect(minting).rejects.toThrow("caller is not a minter");
});

it("[PY8] the chain itself refuses an authorization that grew too old", async () => {
  const payload = await signEvm(chain.payers[0]!, requirement());
  await chain.clients.test.increaseTime({ seconds: 61 });
  await chain.clients.test.mine({ blocks: 1 });
  expect(await attempt(payload, payload.signature)).toBe("FiatTokenV2: authorization is expired");
});
