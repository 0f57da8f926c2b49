import {
  createSolanaRpc,
  type Address,
  getBase64EncodedWireTransaction,
  getTransactionDecoder,
  type Signature,
  type TransactionWithLifetime,
} from "@solana/kit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { challengeOfBody } from "./pay/challenge.ts";
import { signSvm } from "./pay/svm.ts";
import { startSvmChain, type SvmChain } from "./svm/chain.ts";

let chain: SvmChain;
let clock = Date.now();
let rpc: ReturnType<typeof createSolanaRpc>;

beforeAll(async () => {
  chain = await startSvmChain({ payers: 1, confirmMs: 100, now: () => clock });
  rpc = createSolanaRpc(chain.rpcUrl);
});

afterAll(() => chain.stop());

/** A payment with the fee payer's signature, ready to be sent. */
async function signed() {
  const { network, token: asset, payTo, feePayers, payers } = chain;
  const [feePayer] = feePayers;
  const extra = { feePayer: feePayer!.address };
  const { requirement } = challengeOfBody({ accepts: [{ scheme: "exact", network, amount: "1000", asset, payTo, extra }] });
  const { transaction } = await signSvm(payers[0]!, requirement, chain.rpcUrl);
  const decoded = getTransactionDecoder().decode(Buffer.from(transaction, "base64"));
  const [signatures] = await feePayer!.signTransactions([decoded as typeof decoded & TransactionWithLifetime & { "__transactionSize:@solana/kit": never }]);
  return { unsigned: transaction, wire: getBase64EncodedWireTransaction({ ...decoded, signatures: { ...decoded.signatures, ...signatures } }) };
}

it("has a USDC of 6 decimals at the devnet's address", async () => {
  const { value } = await rpc.getAccountInfo(chain.token, { encoding: "base64" }).send();
  expect(value?.owner).toBe("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
  expect(Buffer.from(value?.data[0] ?? "", "base64")[44]).toBe(6);
  expect(await chain.balanceOf(chain.payers[0]!.address)).toBe(100_000_000n);
  expect(await chain.balanceOf(chain.poor.address)).toBe(500n);
  expect(await chain.balanceOf(chain.stranger.address)).toBe(0n);
});

it("runs a signed transaction once and tells of it when it is confirmed", async () => {
  const { wire } = await signed();
  const before = await chain.balanceOf(chain.payTo);
  const signature = await rpc.sendTransaction(wire, { encoding: "base64" }).send();
  expect(await chain.balanceOf(chain.payTo)).toBe(before + 1_000n);
  expect((await rpc.getSignatureStatuses([signature]).send()).value).toEqual([null]);
  clock += 100;
  const [status] = (await rpc.getSignatureStatuses([signature]).send()).value;
  expect(status).toMatchObject({ confirmationStatus: "finalized", err: null });
  expect(await rpc.getTransaction(signature, { encoding: "base64", maxSupportedTransactionVersion: 0 }).send()).toMatchObject({ meta: { err: null } });

  const again = await rpc.simulateTransaction(wire as never, { encoding: "base64" }).send();
  expect(again.value.err).toBe("AlreadyProcessed");
  expect(await rpc.sendTransaction(wire, { encoding: "base64", skipPreflight: true }).send()).toBe(signature);
  expect(await chain.balanceOf(chain.payTo)).toBe(before + 1_000n);
});

it("simulates without the fee payer's signature, unless asked for it", async () => {
  const { unsigned } = await signed();
  const simulate = (sigVerify: boolean) => rpc.simulateTransaction(unsigned as never, { encoding: "base64", sigVerify } as never).send();
  expect((await simulate(false)).value.err).toBeNull();
  expect((await simulate(true)).value.err).toBe("SignatureFailure");
});

it("refuses a transaction whose blockhash is too old: aloud with preflight, silently without", async () => {
  const { wire } = await signed();
  chain.expireBlockhashes();
  const before = await chain.balanceOf(chain.payTo);
  await expect(rpc.sendTransaction(wire, { encoding: "base64" }).send()).rejects.toThrow(/[Ss]imulation failed/);
  const signature = await rpc.sendTransaction(wire, { encoding: "base64", skipPreflight: true }).send();
  expect((await rpc.getSignatureStatuses([signature]).send()).value).toEqual([null]);
  expect(await chain.balanceOf(chain.payTo)).toBe(before);
});

it("lets a blockhash grow old by its age, counted from when it was given out", async () => {
  const { wire } = await signed();
  const before = await chain.balanceOf(chain.payTo);
  clock += 60_001;
  await expect(rpc.sendTransaction(wire, { encoding: "base64" }).send()).rejects.toThrow(/[Ss]imulation failed/);
  expect(await chain.balanceOf(chain.payTo)).toBe(before);

  const { wire: younger } = await signed();
  clock += 60_000;
  await rpc.sendTransaction(younger, { encoding: "base64" }).send();
  expect(await chain.balanceOf(chain.payTo)).toBe(before + 1_000n);
});

it("says in Solana's words why a transfer fails", async () => {
  await expect(chain.transfer(chain.poor, chain.outsider.address, 501n)).rejects.toThrow('{"InstructionError":[0,{"Custom":1}]}');
});

it("answers what it does not know as Solana does", async () => {
  const call = async (body: string): Promise<unknown> => (await fetch(chain.rpcUrl, { method: "POST", body })).json();
  expect(await call('{"jsonrpc":"2.0","id":7,"method":"getVoteAccounts"}')).toMatchObject({ id: 7, error: { code: -32_601 } });
  expect(await call("{")).toMatchObject({ id: null, error: { code: -32_700 } });
  expect(await call('[{"jsonrpc":"2.0","id":1,"method":"getHealth"}]')).toEqual([{ jsonrpc: "2.0", id: 1, result: "ok" }]);
  expect(await call('{"jsonrpc":"2.0","id":1,"method":"sendTransaction","params":["AAAA",{"encoding":"base64"}]}')).toMatchObject({ error: { code: -32_602 } });
  expect((await rpc.getSignatureStatuses(["1".repeat(64) as Signature]).send()).value).toEqual([null]);
  expect((await rpc.getAccountInfo("11111111111111111111111111111112" as Address, { encoding: "base64" }).send()).value).toBeNull();
});
