import { createKeyPairSignerFromPrivateKeyBytes, getBase58Encoder, type KeyPairSigner } from "@solana/kit";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SvmSource } from "../../../src/coordinator/stake/sources.ts";
import { startSvmHoldings, type SvmHoldings, TOKENS } from "./svm-holdings.ts";

let chain: SvmHoldings;
beforeAll(async () => {
  chain = await startSvmHoldings();
});
afterAll(() => chain.stop());

async function newWorker(): Promise<{ signer: KeyPairSigner; key: string }> {
  const signer = await createKeyPairSignerFromPrivateKeyBytes(randomBytes(32));
  return { signer, key: Buffer.from(getBase58Encoder().encode(signer.address)).toString("hex") };
}

describe.each(["classic", "token2022"] as const)("STAKE_SOURCE=svm with a mint of %s", (token) => {
  const unit = 10n ** BigInt(TOKENS[token].decimals);
  const read = async (key: string, mint: string = chain.mint[token]) => (await new SvmSource({ rpcUrl: chain.rpcUrl, mint }).read([key]))[0];

  it("[ST1] reads what the worker's key holds, to the smallest unit", async () => {
    const { signer, key } = await newWorker();
    expect(await read(key)).toEqual({ ok: true, value: "Open" });
    await chain.give(signer.address, token, 100n * unit - 1n);
    expect(await read(key)).toEqual({ ok: true, value: "Open" });
    await chain.give(signer.address, token, 1n);
    expect(await read(key)).toEqual({ ok: true, value: "Verified" });
    await chain.give(signer.address, token, 900n * unit);
    expect(await read(key)).toEqual({ ok: true, value: "Sentinel" });
    await chain.burn(signer, token, 901n * unit);
    expect(await read(key)).toEqual({ ok: true, value: "Open" });
  });

  it("[ST1] another token is no stake", async () => {
    const { signer, key } = await newWorker();
    await chain.give(signer.address, token === "classic" ? "token2022" : "classic", 10_000n * unit);
    expect(await read(key)).toEqual({ ok: true, value: "Open" });
  });

  it("[ST2] a mint that is not there is no stake of none", async () => {
    const { signer, key } = await newWorker();
    expect(await read(key, signer.address)).toEqual({ ok: false, reason: "rpc_error_-32602" });
  });
});
