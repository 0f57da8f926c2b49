import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { errorFacts } from "../../../src/coordinator/log.ts";
import { EvmSource, type StakeSource, SvmSource } from "../../../src/coordinator/stake/sources.ts";
import { TableSource } from "../../../src/coordinator/stake/table.ts";
import { CONTRACT, hang, type Holding, MINT, RPC_URL, StakeNode } from "../support/stake-node.ts";
import { newKey } from "../support/worker.ts";

const DEADLINE = 60;

/** One stake source with its database or chain. */
type Rig = {
  source: StakeSource;
  /** Stakes an amount of tokens, given as a decimal number. */
  set(key: string, tokens: string): Promise<void> | void;
  /** Stakes the largest possible amount. */
  setMost(key: string): Promise<void> | void;
  /** Makes the answer for this key meaningless. */
  spoil(key: string): Promise<void> | void;
  /** The source does not answer; the source refuses. */
  hang(): void;
  refuse(): void;
  /** Number of calls. */
  calls(): number;
};

/** Converts `tokens` to the smallest units of a token with these decimals. */
function atoms(tokens: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = tokens.split(".");
  return BigInt(whole + fraction.padEnd(decimals, "0").slice(0, decimals));
}

function tableRig(): Rig {
  let how: "answers" | "hangs" | "refuses" = "answers";
  let calls = 0;
  const row = async (key: string, amount: unknown) => {
    await env.DB.prepare("INSERT OR REPLACE INTO stakes (provider_pubkey, amount, updated_at) VALUES (?, ?, 0)").bind(key, amount).run();
  };
  const db = new Proxy(env.DB, {
    get(target, member) {
      if (member !== "prepare") return Reflect.get(target, member);
      return (query: string) => {
        calls++;
        if (how === "refuses") return target.prepare(query.replaceAll("stakes", "dropped"));
        if (how === "answers") return target.prepare(query);
        const silent = { bind: () => silent, raw: () => new Promise(() => {}), all: () => new Promise(() => {}) };
        return silent;
      };
    },
  });
  return {
    source: new TableSource(() => db, DEADLINE),
    set: (key, tokens) => row(key, Number(tokens)),
    setMost: (key) => row(key, Number.MAX_VALUE),
    spoil: (key) => row(key, "plenty"),
    hang: () => void (how = "hangs"),
    refuse: () => void (how = "refuses"),
    calls: () => calls,
  };
}

function evmRig(): Rig {
  const node = new StakeNode();
  return {
    source: new EvmSource({ rpcUrl: RPC_URL, contract: CONTRACT, decimals: 18, deadline: DEADLINE }),
    set: (key, tokens) => void node.stakes.set(key, atoms(tokens, 18)),
    setMost: (key) => void node.stakes.set(key, 2n ** 256n - 1n),
    spoil: (key) => void node.garbage.set(key, `0x${"f".repeat(63)}`),
    hang: () => void (node.before = hang),
    refuse: () => void (node.before = async () => new Response("down", { status: 502 })),
    calls: () => node.requests.length,
  };
}

function svmRig(): Rig {
  const node = new StakeNode();
  return {
    source: new SvmSource({ rpcUrl: RPC_URL, mint: MINT, deadline: DEADLINE }),
    // Two accounts: their sum counts.
    set: (key, tokens) => void node.holdings.set(key, [{ amount: 1n }, { amount: atoms(tokens, 9) - 1n }]),
    setMost: (key) => void node.holdings.set(key, [{ amount: 2n ** 64n - 1n }, { amount: 2n ** 64n - 1n }]),
    spoil: (key) => void node.garbage.set(key, { value: {} }),
    hang: () => void (node.before = hang),
    refuse: () => void (node.before = async () => new Response("down", { status: 502 })),
    calls: () => node.requests.length,
  };
}

/** The contract of every stake source. */
describe.each([
  ["table", tableRig],
  ["evm", evmRig],
  ["svm", svmRig],
] as const)("STAKE_SOURCE=%s", (name, begin) => {
  let rig: Rig;
  beforeEach(() => {
    rig = begin();
  });

  const key = () => newKey().publicKey;
  const read = async (one: string) => (await rig.source.read([one]))[0];

  test("[ST1] an unknown key is Open", async () => {
    expect(await read(key())).toEqual({ ok: true, value: "Open" });
  });

  test.each([
    ["0.000001", "Open"],
    ["99.999999", "Open"],
    [name === "evm" ? "99.999999999999999999" : name === "svm" ? "99.999999999" : "99.99999999999999", "Open"],
    ["100", "Verified"],
    ["100.000001", "Verified"],
    ["999.999999", "Verified"],
    ["1000", "Sentinel"],
    ["123456789.5", "Sentinel"],
  ])("[ST1] [SPEC] %s tokens are %s", async (tokens, tier) => {
    const staked = key();
    await rig.set(staked, tokens);
    expect(await read(staked)).toEqual({ ok: true, value: tier });
  });

  test("[ST1] the largest possible stake is Sentinel", async () => {
    const staked = key();
    await rig.setMost(staked);
    expect(await read(staked)).toEqual({ ok: true, value: "Sentinel" });
  });

  test("[ST2] a stake that rises or falls is seen at the next read", async () => {
    const staked = key();
    const tiers = [];
    for (const tokens of ["1000", "100", "99.5", "250"]) {
      await rig.set(staked, tokens);
      tiers.push(await read(staked));
    }
    expect(tiers.map((reading) => reading?.ok && reading.value)).toEqual(["Sentinel", "Verified", "Open", "Verified"]);
  });

  test("[ST2] the keys of one read are one call, and the answers have their order", async () => {
    const keys = Array.from({ length: rig.source.keysPerRead }, key);
    await Promise.all(keys.map(async (one, at) => rig.set(one, ["1", "100", "1000"][at % 3] ?? "")));
    const readings = await rig.source.read(keys);
    expect(readings.map((reading) => reading.ok && reading.value)).toEqual(keys.map((_, at) => ["Open", "Verified", "Sentinel"][at % 3]));
    expect(rig.calls()).toBe(1);
  });

  test("[ST2] an invalid answer for one key gives it no tier, and does not affect the others", async () => {
    const [spoilt, staked] = [key(), key()];
    await rig.spoil(spoilt);
    await rig.set(staked, "100");
    expect(await rig.source.read([spoilt, staked])).toEqual([
      { ok: false, reason: "invalid_response" },
      { ok: true, value: "Verified" },
    ]);
  });

  test("[ST2] a source that refuses rejects, and the log has no secret", async () => {
    rig.refuse();
    const error: unknown = await rig.source.read([key()]).catch((thrown: unknown) => thrown);
    expect(errorFacts(error)).toMatchObject({ reason: name === "table" ? "no such table: dropped: SQLITE_ERROR" : "http_502" });
    expect(JSON.stringify(errorFacts(error))).not.toMatch(/node\.test|secret/);
  });

  test("[ST2] a source that hangs rejects at the deadline", async () => {
    rig.hang();
    const error: unknown = await rig.source.read([key()]).catch((thrown: unknown) => thrown);
    expect(errorFacts(error)).toMatchObject({ reason: name === "table" ? `no answer in ${DEADLINE} ms` : "timeout" });
  });
});

describe("STAKE_SOURCE=evm", () => {
  test.each([
    ["0x", "no_contract"],
    ["0x0", "invalid_response"],
    [`0x${"0".repeat(62)}64`.slice(0, 65), "invalid_response"],
    [`0x${"0".repeat(128)}`, "invalid_response"],
    [`0x${"g".repeat(64)}`, "invalid_response"],
    [100, "invalid_response"],
    [null, "invalid_response"],
    [{ toString: "100" }, "invalid_response"],
  ])("[ST2] the answer %j is %s", async (answer, reason) => {
    const node = new StakeNode();
    const { publicKey } = newKey();
    node.garbage.set(publicKey, answer);
    const source = new EvmSource({ rpcUrl: RPC_URL, contract: CONTRACT, decimals: 18 });
    expect(await source.read([publicKey])).toEqual([{ ok: false, reason }]);
  });
});

describe("STAKE_SOURCE=svm", () => {
  const amount = 50_000_000_000n;
  const { publicKey } = newKey();

  async function reading(holdings: readonly Holding[]) {
    const node = new StakeNode();
    node.holdings.set(publicKey, holdings);
    return (await new SvmSource({ rpcUrl: RPC_URL, mint: MINT }).read([publicKey]))[0];
  }

  test("[ST1] the accounts of a key are added up, of either token program", async () => {
    expect(await reading([{ amount }])).toEqual({ ok: true, value: "Open" });
    expect(await reading([{ amount }, { amount }])).toEqual({ ok: true, value: "Verified" });
    expect(
      await reading([
        { amount, program: "Token2022" },
        { amount, program: "Token2022" },
      ]),
    ).toEqual({ ok: true, value: "Verified" });
  });

  test("[ST1] the decimals are those of the answer", async () => {
    expect(await reading([{ amount, decimals: 6 }])).toEqual({ ok: true, value: "Sentinel" });
    expect(await reading([{ amount: 1_000n, decimals: 0 }])).toEqual({ ok: true, value: "Sentinel" });
  });

  test.each([
    ["another mint", { amount, mint: CONTRACT }],
    ["another owner", { amount, owner: MINT }],
    ["other decimals", { amount, decimals: 6 }],
    ["a negative amount", { amount: -1n }],
    ["more than a u64", { amount: 2n ** 64n }],
    ["decimals that are none", { amount, decimals: 1.5 }],
  ])("[ST2] an account of %s makes the answer invalid", async (_, holding) => {
    expect(await reading([{ amount }, holding])).toEqual({ ok: false, reason: "invalid_response" });
  });

  test("[ST2] too many accounts of a key make only this key unreadable", async () => {
    const many = Array.from({ length: 3_000 }, () => ({ amount }));
    expect(await reading(many)).toEqual({ ok: false, reason: "too_large" });
  });
});
