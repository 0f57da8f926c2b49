import { getBase58Decoder } from "@solana/kit";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort, type Instance } from "../../../scripts/coordinator-process.ts";
import { type CoordinatorHere, startHere } from "../../support/coordinator-here.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import { until } from "../../support/until.ts";
import { type EvmChain, startEvmChain } from "../evm/chain.ts";
import { deployStake, type StakeContract } from "./stake-contract.ts";
import { startSvmHoldings, type SvmHoldings } from "./svm-holdings.ts";

/** Both staked tokens have six decimals here. */
const TOKEN = 1_000_000n;

let evm: EvmChain;
let contract: StakeContract;
let svm: SvmHoldings;
beforeAll(async () => {
  [evm, svm] = await Promise.all([startEvmChain({ payers: 1, balance: 10_000n * TOKEN }), startSvmHoldings()]);
  contract = await deployStake(evm, { cooldownSeconds: 86_400 });
  await contract.approve(evm.payers[0] ?? expect.unreachable(), 10_000n * TOKEN);
});
afterAll(() => Promise.all([evm.stop(), svm.stop()]));

const WORLDS = {
  evm: {
    settings: () => ({ STAKE_SOURCE: "evm", EVM_RPC_URL: evm.rpcUrl, EVM_STAKE_CONTRACT: contract.address, EVM_STAKE_DECIMALS: "6" }),
    stake: (key: string, tokens: bigint) => contract.as(evm.payers[0] ?? expect.unreachable(), "stake", key, tokens * TOKEN),
  },
  svm: {
    settings: () => ({ STAKE_SOURCE: "svm", SVM_RPC_URL: svm.rpcUrl, SVM_STAKE_MINT: svm.mint.classic }),
    stake: (key: string, tokens: bigint) => svm.give(addressOf(key), "classic", tokens * TOKEN),
  },
};

function addressOf(key: string) {
  return getBase58Decoder().decode(Buffer.from(key, "hex")) as Parameters<SvmHoldings["give"]>[0];
}

describe.each(["evm", "svm"] as const satisfies Instance[])("STAKE_SOURCE=%s in a running coordinator", (name) => {
  let coordinator: CoordinatorHere;
  const workers: PlainWorker[] = [];

  beforeAll(async () => {
    const state = mkdtempSync(join(tmpdir(), `compute-router-stake-${name}-`));
    coordinator = await startHere({
      instance: name,
      port: await freePort(),
      stateDir: state,
      settings: { TESTNET_MODE: "true", ...WORLDS[name].settings() },
    });
    return async () => {
      for (const worker of workers) worker.close();
      await coordinator.stop();
      rmSync(state, { recursive: true, force: true });
    };
  }, 120_000);

  async function joined(tokens: bigint): Promise<{ worker: PlainWorker; tier: unknown }> {
    const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
    workers.push(worker);
    if (tokens > 0n) await WORLDS[name].stake(worker.publicKey, tokens);
    const { tier } = await worker.connect();
    return { worker, tier };
  }

  async function commit(policy: "fast" | "cheap"): Promise<string> {
    const body = JSON.stringify({ job_type: "TASK", user_id: "stake-lab", payload: { task_type: "summarize", input: "A text." } });
    const answer: { job_id: string } = JSON.parse(await (await fetch(`${coordinator.url}/v1/jobs/commit/${policy}`, { method: "POST", body })).text());
    return answer.job_id;
  }

  const status = async (id: string): Promise<string> => {
    const job: { status: string } = JSON.parse(await (await fetch(`${coordinator.url}/v1/jobs/${id}`)).text());
    return job.status;
  };
  const completed = (id: string) => until("completion", async () => ((await status(id)) === "completed" ? true : undefined));

  it("[ST1] [SPEC] the chain's stake is the tier at register; FAST waits for 100 and CHEAP for nobody", async () => {
    const { worker: none, tier: noTier } = await joined(0n);
    const { worker: low, tier } = await joined(99n);
    expect([noTier, tier]).toEqual(["Open", "Open"]);
    none.serve();
    low.serve();
    const [fast, cheap] = [await commit("fast"), await commit("cheap")];
    await completed(cheap);
    expect(await status(fast)).toBe("pending");
    const { worker: verified, tier: second } = await joined(100n);
    expect(second).toBe("Verified");
    // It comes with the registration.
    expect(await verified.frame("job_assign")).toMatchObject({ job_id: fast, policy: "FAST" });
    verified.complete(fast, { summary: "short", word_count: 1 });
    await completed(fast);
    // The rest of what it needs: read when it comes back.
    low.close();
    await WORLDS[name].stake(low.publicKey, 901n);
    expect((await low.connect()).tier).toBe("Sentinel");
  }, 90_000);
});
