import { randomBytes } from "node:crypto";
import { toFunctionSelector } from "viem";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EvmSource } from "../../../src/coordinator/stake/sources.ts";
import { type EvmChain, startEvmChain } from "../evm/chain.ts";
import { deployStake, type StakeContract } from "./stake-contract.ts";

const COOLDOWN = 600;
/** The lab's token has six decimals, and each payer 100 of it. */
const TOKEN = 1_000_000n;

let chain: EvmChain;
let contract: StakeContract;

beforeAll(async () => {
  chain = await startEvmChain({ payers: 4, balance: 2_000n * TOKEN });
  contract = await deployStake(chain, { cooldownSeconds: COOLDOWN });
  for (const payer of chain.payers) expect(await contract.approve(payer, 10_000n * TOKEN)).toBe("ok");
});
afterAll(() => chain.stop());

const newKey = () => randomBytes(32).toString("hex");
const payer = (at: number) => chain.payers[at] ?? expect.unreachable();
const pass = async (seconds: number) => {
  await chain.clients.test.increaseTime({ seconds });
  await chain.clients.test.mine({ blocks: 1 });
};

describe("contracts/Stake.sol", () => {
  it("counts what anyone stakes for a key, and gives back to each only what was theirs", async () => {
    const key = newKey();
    expect(await contract.as(payer(0), "stake", key, 60n * TOKEN)).toBe("ok");
    // Somebody who was first with next to nothing does not occupy the key.
    expect(await contract.as(payer(1), "stake", key, 1n)).toBe("ok");
    expect(await contract.as(payer(0), "stake", key, 40n * TOKEN)).toBe("ok");
    expect(await contract.stakeOf(key)).toBe(100n * TOKEN + 1n);
    expect(await contract.as(payer(1), "unstake", key, 2n)).toBe("MoreThanStaked");
    expect(await contract.as(payer(2), "unstake", key, 1n)).toBe("MoreThanStaked");
    expect(await contract.as(payer(1), "unstake", key, 1n)).toBe("ok");
    expect(await contract.stakeOf(key)).toBe(100n * TOKEN);
    expect(await contract.stakeOf(newKey())).toBe(0n);
  });

  it("what is unstaked counts no more at once, is paid after the cooldown, and once", async () => {
    const key = newKey();
    const before = await chain.balanceOf(payer(2).address);
    await contract.as(payer(2), "stake", key, 100n * TOKEN);
    expect(await contract.withdraw(payer(2))).toBe("NothingToMove");
    await contract.as(payer(2), "unstake", key, 30n * TOKEN);
    expect(await contract.stakeOf(key)).toBe(70n * TOKEN);
    await pass(COOLDOWN - 60);
    expect(await contract.withdraw(payer(2))).toBe("CoolingDown");
    // More of it begins the wait anew, for all.
    await contract.as(payer(2), "unstake", key, 20n * TOKEN);
    await pass(COOLDOWN - 60);
    expect(await contract.withdraw(payer(2))).toBe("CoolingDown");
    await pass(120);
    expect(await contract.withdraw(payer(2))).toBe("ok");
    expect(await contract.withdraw(payer(2))).toBe("NothingToMove");
    expect(await chain.balanceOf(payer(2).address)).toBe(before - 50n * TOKEN);
    expect(await contract.stakeOf(key)).toBe(50n * TOKEN);
  });

  it("moves nothing for nothing, and nothing that is not approved or not there", async () => {
    const key = newKey();
    expect(await contract.as(payer(0), "stake", key, 0n)).toBe("NothingToMove");
    expect(await contract.as(payer(0), "unstake", key, 0n)).toBe("NothingToMove");
    expect(await contract.as(payer(0), "stake", key, 10_000n * TOKEN)).toBe("TransferFailed");
    expect(await contract.as(payer(0), "stake", key, 2n ** 256n - 1n)).not.toBe("ok");
    await contract.approve(payer(3), 0n);
    expect(await contract.as(payer(3), "stake", key, 1n)).toBe("TransferFailed");
    expect(await contract.stakeOf(key)).toBe(0n);
  });

  it("has a cooldown that ends", async () => {
    await expect(deployStake(chain, { cooldownSeconds: 366 * 24 * 60 * 60 })).rejects.toThrow(toFunctionSelector("CooldownTooLong()"));
  });
});

describe("STAKE_SOURCE=evm on a chain", () => {
  const source = () => new EvmSource({ rpcUrl: chain.rpcUrl, contract: contract.address, decimals: 6 });

  it("[ST1] reads the stakes of many keys in one batch, to the smallest unit", async () => {
    const keys = Array.from({ length: 100 }, newKey);
    const [just, verified, sentinel] = keys as [string, string, string];
    await contract.as(payer(0), "stake", just, 100n * TOKEN - 1n);
    await contract.as(payer(0), "stake", verified, 100n * TOKEN);
    await contract.as(payer(1), "stake", sentinel, 1_000n * TOKEN);
    const tiers = (await source().read(keys)).map((reading) => (reading.ok ? reading.value : reading.reason));
    expect(tiers).toEqual(["Open", "Verified", "Sentinel", ...keys.slice(3).map(() => "Open")]);
    await contract.as(payer(0), "unstake", verified, 1n);
    await contract.as(payer(0), "stake", just, 1n);
    expect(await source().read([verified, just])).toEqual([
      { ok: true, value: "Open" },
      { ok: true, value: "Verified" },
    ]);
  });

  it("[ST2] an address without a contract, and one with another, are told apart from a stake of none", async () => {
    const at = (address: string) => new EvmSource({ rpcUrl: chain.rpcUrl, contract: address, decimals: 6 }).read([newKey()]);
    expect(await at(chain.outsider.address)).toEqual([{ ok: false, reason: "no_contract" }]);
    expect(await at(chain.token)).toEqual([{ ok: false, reason: expect.stringMatching(/^rpc_error_-?\d+$/) }]);
  });
});
