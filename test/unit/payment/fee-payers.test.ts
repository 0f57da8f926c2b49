import { afterEach, describe, expect, test, vi } from "vitest";
import { feePayers, feePayersOf, mayPayFee } from "../../../src/coordinator/payment/facilitator.ts";
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
    const ask = () => feePayers(settings(facilitator.url), () => now);
    expect(await ask()).toMatchObject({ quoted: "a" });
    now = 4 * MINUTE;
    expect(await ask()).toMatchObject({ quoted: "a" });
    expect(facilitator.asked).toEqual([{ path: "/supported", method: "GET", body: null }]);
    expect(await mayPayFee(settings(facilitator.url), "b", () => now)).toBe(true);
    expect(await ask()).toMatchObject({ quoted: "b" });
    expect(await mayPayFee(settings(facilitator.url), "a", () => now)).toBe(false);
    now = 10 * MINUTE;
    expect(await ask()).toMatchObject({ quoted: "b" });
    expect(facilitator.asked).toHaveLength(3);
  });

  test("[PY12] an old list is used if there is no new one, and a facilitator without an answer is not asked for some time", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    await using facilitator = await answering({ "/supported": [supported("a"), { status: 500 }, { status: 500 }, supported("b")] });
    let now = 0;
    const ask = () => feePayers(settings(facilitator.url), () => now);
    await ask();
    for (now = 6 * MINUTE; now < 6 * MINUTE + 3_000; now += 1_000) expect(await ask()).toMatchObject({ quoted: "a" });
    expect(facilitator.asked).toHaveLength(3);
    now += 20_000;
    expect(await ask()).toMatchObject({ quoted: "b" });
  });

  test("[PY12] if the facilitator is down there is no list, and only the first 402 waits for it", async () => {
    const spy = vi.spyOn(console, "error").mockImplementation(() => {});
    for (let i = 0; i < 5; i++) expect(await feePayers(settings("http://127.0.0.1:9/down"), () => 1_000)).toBeNull();
    expect(spy).toHaveBeenCalledTimes(1);
  });

  test("[PY12] while one request asks, others use the known list; without one they ask too", async () => {
    const release = Promise.withResolvers<void>();
    const slow = async () => await release.promise;
    await using facilitator = await answering({
      "/supported": [supported("a"), (_, response) => void slow().then(() => response.end(JSON.stringify(supported("b").body)))],
    });
    let now = 0;
    const ask = () => feePayers(settings(facilitator.url), () => now);
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

  test("[PY11] an old list refuses nobody: not while another request asks for a new one, and not while the facilitator does not answer", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const release = Promise.withResolvers<void>();
    const slow = async () => await release.promise;
    await using facilitator = await answering({
      "/supported": [supported("a"), { status: 500 }, (_, response) => void slow().then(() => response.end(JSON.stringify(supported("b").body)))],
    });
    let now = 0;
    const may = (feePayer: string) => mayPayFee(settings(facilitator.url), feePayer, () => now);
    expect([await may("a"), await may("b")]).toEqual([true, false]);
    now = MINUTE;
    expect([await may("b"), await may("a")]).toEqual([true, true]);
    now += 10_000;
    const first = may("b");
    expect(await may("c")).toBe(true);
    release.resolve();
    expect(await first).toBe(true);
    expect([await may("c"), await may("a")]).toEqual([false, false]);
  });

  test("[PY12] a clock that was set back makes no answer last longer", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    await using facilitator = await answering({ "/supported": [{ status: 500 }, supported("a"), supported("b")] });
    let now = 60 * MINUTE;
    const ask = () => feePayers(settings(facilitator.url), () => now);
    expect(await ask()).toBeNull();
    now = 30 * MINUTE;
    expect(await ask()).toMatchObject({ quoted: "a" });
    now = 0;
    expect(await ask()).toMatchObject({ quoted: "b" });
  });
});
