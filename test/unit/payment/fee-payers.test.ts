import { afterEach, describe, expect, test, vi } from "vitest";
import { feePayers, feePayersOf } from "../../../src/coordinator/payment/facilitator.ts";
import { answering } from "./answering.ts";

const NETWORK = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const kind = (feePayer: unknown, more = {}) => ({ x402Version: 2, scheme: "exact", network: NETWORK, extra: { feePayer }, ...more }) as const;
const supported = (feePayer: string, ...signers: string[]) => ({
  body: { kinds: [kind(feePayer)], extensions: [], signers: { "solana:*": [feePayer, ...signers] } },
});
const settings = (facilitator: string) => ({ network: NETWORK, payment: { facilitator, authorization: null, payTo: "x", asset: null, rpcUrl: null } });
const MINUTE = 60_000;

afterEach(() => vi.restoreAllMocks());

describe("feePayersOf", () => {
  test("[PY11] any signer of the family or of the network, and the quoted one", () => {
    const signers = { "solana:*": ["b", "a"], [NETWORK]: ["c"], "eip155:*": ["0x"] };
    expect(feePayersOf({ kinds: [kind("a")], extensions: [], signers }, NETWORK)).toEqual({ quoted: "a", all: ["a", "c", "b"] });
  });

  test("[PY11] a facilitator that lists no signers does not say whom it would refuse", () => {
    expect(feePayersOf({ kinds: [kind("a")], extensions: [], signers: {} }, NETWORK)).toEqual({ quoted: "a", all: null });
  });

  test("[PY11] other versions, schemes and networks are not ours", () => {
    const others = [kind("a", { x402Version: 1 }), kind("b", { scheme: "upto" }), kind("c", { network: "solana:other" as const }), kind(7)];
    expect(feePayersOf({ kinds: others, extensions: [], signers: {} }, NETWORK)).toEqual({ quoted: null, all: null });
  });
});

describe("feePayers", () => {
  test("[PY12] asked once, then from memory for minutes", async () => {
    await using facilitator = await answering({ "/supported": [supported("a"), supported("b")] });
    let now = 0;
    const ask = (maxAge?: number) => feePayers(settings(facilitator.url), maxAge, () => now);
    expect(await ask()).toMatchObject({ quoted: "a" });
    now = 4 * MINUTE;
    expect(await ask()).toMatchObject({ quoted: "a" });
    expect(facilitator.asked).toEqual([{ path: "/supported", method: "GET", body: null }]);
    expect(await ask(10_000)).toMatchObject({ quoted: "b" });
    now = 10 * MINUTE;
    expect(await ask()).toMatchObject({ quoted: "b" });
    expect(facilitator.asked).toHaveLength(3);
  });

  test("[PY12] an old list is used if there is no new one, and a facilitator without an answer is not asked for some time", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    await using facilitator = await answering({ "/supported": [supported("a"), { status: 500 }, { status: 500 }, supported("b")] });
    let now = 0;
    const ask = () => feePayers(settings(facilitator.url), undefined, () => now);
    await ask();
    for (now = 6 * MINUTE; now < 6 * MINUTE + 3_000; now += 1_000) expect(await ask()).toMatchObject({ quoted: "a" });
    expect(facilitator.asked).toHaveLength(3);
    now += 20_000;
    expect(await ask()).toMatchObject({ quoted: "b" });
  });

  test("[PY12] if the facilitator is down there is no list, and only the first 402 waits for it", async () => {
    const spy = vi.spyOn(console, "error").mockImplementation(() => {});
    for (let i = 0; i < 5; i++) expect(await feePayers(settings("http://127.0.0.1:9/down"), undefined, () => 1_000)).toBeNull();
    expect(spy).toHaveBeenCalledTimes(1);
  });

  test("[PY12] while one request asks, others use the known list; without one they ask too", async () => {
    const release = Promise.withResolvers<void>();
    const slow = async () => await release.promise;
    await using facilitator = await answering({
      "/supported": [supported("a"), (_, response) => void slow().then(() => response.end(JSON.stringify(supported("b").body)))],
    });
    let now = 0;
    const ask = () => feePayers(settings(facilitator.url), undefined, () => now);
    expect(await ask()).toMatchObject({ quoted: "a" });
    now = 6 * MINUTE;
    const first = ask();
    expect(await ask()).toMatchObject({ quoted: "a" });
    release.resolve();
    expect(await first).toMatchObject({ quoted: "b" });
    await using cold = await answering({ "/supported": supported("c") });
    const both = await Promise.all([feePayers(settings(cold.url)), feePayers(settings(cold.url))]);
    expect(both).toMatchObject([{ quoted: "c" }, { quoted: "c" }]);
  });
});
