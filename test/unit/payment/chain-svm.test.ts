import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import type { ChainAnswer, Doubt, Found } from "../../../src/coordinator/payment/chain.ts";
import { SvmChain } from "../../../src/coordinator/payment/chain-svm.ts";
import { associatedTokenAccount } from "../../../src/coordinator/chain/addresses.ts";
import { readTransaction } from "../../../src/coordinator/chain/svm-transaction.ts";
import { balances, FakeSvm, MINT, NETWORK, PAYEE, RPC_URL, TOKEN_PROGRAM, transaction } from "../../support/fake-svm.ts";

const OURS = transaction();
const LANDED = transaction({ signed: true }).base64;
const OTHER = transaction({ memo: "memo-2", signed: true }).base64;
const SECOND = 1_000;
const TERMS = JSON.stringify({ asset: MINT, payTo: PAYEE, amount: "1000" });

type Given = { found?: Found | null; left?: number; what?: { base64: string; key: string } };

/** A payment that has so many milliseconds left. */
function doubtOf(node: FakeSvm, { found = null, left = 60 * SECOND, what = OURS }: Given = {}): Doubt {
  const payload = JSON.stringify({ x402Version: 2, payload: { transaction: what.base64 } });
  return { key: what.key, payload, requirements: TERMS, expiresAt: node.time + left, block: null, found };
}

const chain = () => new SvmChain({ url: RPC_URL, deadline: 1_000 }, NETWORK);

async function readOne(node: FakeSvm, doubt = doubtOf(node)): Promise<ChainAnswer> {
  const [answer] = await chain().read([doubt], node.time + 2 * SECOND);
  if (answer === undefined) throw new Error("no answer");
  return answer;
}

async function readOn(node: FakeSvm, doubt: Doubt, most = 60): Promise<{ answer: ChainAnswer; readings: number }> {
  let found = doubt.found;
  for (let readings = 1; ; readings++) {
    const answer = await readOne(node, { ...doubt, found });
    if (answer.kind !== "undecided" || readings === most) return { answer, readings };
    found = answer.found;
  }
}

test("the transactions of this file can be read", () => {
  expect(readTransaction(Buffer.from(OURS.base64, "base64"))).toMatchObject({ instructions: [{}, {}] });
});

describe("what became of a transaction", () => {
  test("[PY8] one with our message, byte by byte, is in the history of the payer's token account: settled, by its signature", async () => {
    const node = new FakeSvm();
    node.land(OTHER);
    const signature = node.land(LANDED);
    node.land(OTHER);
    expect(await readOne(node)).toEqual({ kind: "settled", transaction: signature });
  });

  test("[PY8] it was executed and failed: void", async () => {
    const node = new FakeSvm();
    node.land(LANDED, { err: { InstructionError: [2, { Custom: 1 }] } });
    expect(await readOne(node)).toEqual({ kind: "void", proof: "failed" });
  });

  test.each([
    ["to an account that existed", balances("7", "1007")],
    ["to one that is new", balances(null, "1000")],
    ["and more", balances("0", "5000")],
  ])("[PY8] it has moved our amount to our payee %s: settled", async (_, moved) => {
    const node = new FakeSvm();
    const signature = node.land(LANDED, { balances: moved });
    expect(await readOne(node)).toEqual({ kind: "settled", transaction: signature });
  });

  test.each([
    ["nothing", balances("1007", "1007")],
    ["less", balances("7", "1006")],
    ["another token", balances("7", "1007", { mint: PAYEE })],
    ["to somebody else", balances("7", "1007", { owner: MINT })],
    ["no token at all", { preTokenBalances: [], postTokenBalances: [] }],
  ])("[PY8] it succeeded, and moved %s: void, because its message cannot run again", async (_, moved) => {
    const node = new FakeSvm();
    node.land(LANDED, { balances: moved });
    expect(await readOne(node)).toEqual({ kind: "void", proof: "used_elsewhere" });
  });

  test("[PY8] its own instructions transfer our amount to our payee: settled, also if the node tells no balances", async () => {
    const to = associatedTokenAccount(PAYEE, TOKEN_PROGRAM, MINT) ?? expect.unreachable();
    const node = new FakeSvm();
    const signature = node.land(transaction({ to, signed: true }).base64, { balances: {} });
    expect(await readOne(node, doubtOf(node, { what: transaction({ to }) }))).toEqual({ kind: "settled", transaction: signature });
  });

  test.each([
    ["balances", {}],
    ["balances after it", { preTokenBalances: [] }],
    ["owners of its accounts", balances("7", "1007", { owner: null })],
  ])("[PY8] a node that knows no %s decides nothing", async (_, moved) => {
    const node = new FakeSvm();
    node.isValid = false;
    node.land(LANDED, { balances: moved });
    expect(await readOn(node, doubtOf(node, { left: -SECOND }), 4)).toMatchObject({ answer: { kind: "undecided", fault: "no_balances" } });
  });

  describe("the clock of the chain is not ours", () => {
    /** A payment that came by our clock when the chain's was so far off, and landed 5 s later. What is read so long after that, and how often. */
    async function readLate(skew: number, after: number, lands: boolean): Promise<{ answer: ChainAnswer; signature: string | null }> {
      const node = new FakeSvm();
      node.isValid = false;
      const came = node.time;
      node.time = came + skew + 5 * SECOND;
      const signature = lands ? node.land(LANDED, { time: node.time }) : null;
      node.land(OTHER, { time: node.time + SECOND });
      node.time = came + skew + after;
      const doubt = { ...doubtOf(node), expiresAt: came + TIMING.svmLifetime };
      for (let found: Found | null = null, readings = 1; ; readings++) {
        const [answer] = await chain().read([{ ...doubt, found }], came + after);
        if (answer === undefined) throw new Error("no answer");
        if (answer.kind !== "undecided" || readings === 6) return { answer, signature };
        found = answer.found;
      }
    }

    test.each([
      ["3 minutes behind", -180],
      ["5 minutes ahead", 300],
      ["half an hour behind", -1_800],
      ["half an hour ahead", 1_800],
    ])("[PY8] it is %s: a transaction that landed is found, and never void", async (_, skew) => {
      for (const after of [5, 60, 125, 400, 2_500]) {
        const { answer, signature } = await readLate(skew * SECOND, after * SECOND, true);
        expect(answer, `after ${after} s`).toEqual({ kind: "settled", transaction: signature });
      }
    });

    test.each([
      ["11 minutes behind", -660],
      ["11 minutes ahead", 660],
    ])("[PY8] it is %s: what is not there is not void", async (_, skew) => {
      for (const after of [1_000, 2_500]) {
        expect((await readLate(skew * SECOND, after * SECOND, false)).answer, `after ${after} s`).toEqual({
          ...{ kind: "undecided", found: null, more: false, fault: "clock" },
        });
      }
    });

    test.each([-180, 600])("[PY8] it is %i s ahead: what is not there is void", async (skew) => {
      expect((await readLate(skew * SECOND, 400 * SECOND, false)).answer).toEqual({ kind: "void", proof: "expired" });
    });
  });

  test("[PY8] it is not there: the doubt stays while its blockhash is valid or our time for it is not over", async () => {
    const node = new FakeSvm();
    node.land(OTHER);
    expect(await readOn(node, doubtOf(node, { left: 5 * SECOND }), 3)).toMatchObject({ answer: { kind: "undecided", more: false } });
    expect(await readOn(node, doubtOf(node, { left: -5 * SECOND }), 3)).toMatchObject({ answer: { kind: "undecided", more: false } });
    node.isValid = false;
    expect(await readOn(node, doubtOf(node, { left: 5 * SECOND }), 3)).toMatchObject({ answer: { kind: "undecided", more: false } });
    // It must be over by the chain's clock and by ours. Here ours is 2 s ahead, then behind.
    expect(await readOn(node, doubtOf(node, { left: SECOND }), 3)).toMatchObject({ answer: { kind: "undecided", more: false } });
    const [behind] = await chain().read([doubtOf(node, { left: -SECOND })], node.time - 2 * SECOND);
    expect(behind).toMatchObject({ kind: "undecided", more: false });
  });

  test.each([
    ["just before it came to us", -TIMING.svmLifetime - SECOND],
    ["after its time, in a block as late as its blockhash allows", TIMING.svmLifetime],
  ])("[PY8] it landed %s: settled, not taken for expired", async (_, late) => {
    const node = new FakeSvm();
    node.isValid = false;
    const doubt = doubtOf(node, { left: -TIMING.svmLifetime - 2 * SECOND });
    const signature = node.land(LANDED, { time: doubt.expiresAt + late });
    expect(await readOn(node, doubt)).toEqual({ answer: { kind: "settled", transaction: signature }, readings: 1 });
  });

  test("[PY8] it is not there, and its blockhash is too old at a finalized block: void, when two readings say so", async () => {
    const node = new FakeSvm();
    node.isValid = false;
    node.land(OTHER);
    const doubt = doubtOf(node, { left: -SECOND });
    expect(await readOne(node, doubt)).toEqual({ kind: "undecided", found: { searched: null, unusedAt: node.slot }, more: true });
    expect(await readOn(node, doubt)).toEqual({ answer: { kind: "void", proof: "expired" }, readings: 2 });
  });

  test("[PY8] it landed between two readings: it is not taken for expired", async () => {
    const node = new FakeSvm();
    node.isValid = false;
    const doubt = doubtOf(node, { left: -SECOND });
    const first = await readOne(node, doubt);
    const signature = node.land(LANDED);
    expect(await readOne(node, { ...doubt, found: first.kind === "undecided" ? first.found : null })).toEqual({ kind: "settled", transaction: signature });
  });

  test("[PY8] a nonce in place of the blockhash never expires, and what is long past is not void by a history that a node may have forgotten; both are found", async () => {
    const node = new FakeSvm();
    node.isValid = false;
    const [withNonce, signed] = [transaction({ nonce: true }), transaction({ nonce: true, signed: true }).base64];
    for (const given of [{ left: -SECOND, what: withNonce }, { left: -TIMING.svmHistory - SECOND }]) {
      expect((await readOn(node, doubtOf(node, given), 4)).answer.kind).toBe("undecided");
    }
    const signature = node.land(signed);
    expect(await readOne(node, doubtOf(node, { left: -SECOND, what: withNonce }))).toEqual({ kind: "settled", transaction: signature });
    const old = node.land(LANDED, { time: node.time - TIMING.svmHistory - 60 * SECOND });
    expect(await readOne(node, doubtOf(node, { left: -TIMING.svmHistory }))).toEqual({ kind: "settled", transaction: old });
  });
});

describe("an RPC that cannot be believed", () => {
  const instead =
    (method: string, result: unknown): FakeSvm["lie"] =>
    (call, truth) =>
      call.method === method ? result : truth;
  const LIES: readonly [string, FakeSvm["lie"]][] = [
    ["has lost the transaction", instead("getTransaction", null)],
    ["answers with another form of it", instead("getTransaction", { transaction: ["", "base58"], meta: { err: null } })],
    ["answers with what is no transaction", instead("getTransaction", { transaction: ["AAAA", "base64"], meta: { err: null } })],
    ["does not say whether it failed", instead("getTransaction", { transaction: [LANDED, "base64"] })],
    ["says of it once that it failed, and once that it did not", instead("getTransaction", { transaction: [LANDED, "base64"], meta: { err: "AccountInUse" } })],
    ["answers with what is no list", instead("getSignaturesForAddress", {})],
    ["refuses the history", instead("getSignaturesForAddress", new Error("not available"))],
    ["has signatures that are none", instead("getSignaturesForAddress", [{ signature: "0x00", err: null, memo: null, blockTime: null }])],
  ];
  test.each(LIES)("[PY8] it %s: the doubt stays, however often it is read and whatever the time", async (_, lie) => {
    const node = new FakeSvm();
    node.isValid = false;
    node.land(LANDED);
    node.lie = lie;
    const { answer } = await readOn(node, doubtOf(node, { left: -SECOND }), 6);
    expect(answer).toMatchObject({ kind: "undecided" });
    expect(answer).toHaveProperty("fault");
  });

  test("[PY8] older nodes behind the same address make nothing expire", async () => {
    const node = new FakeSvm();
    node.isValid = false;
    const doubt = doubtOf(node, { left: -SECOND });
    node.lie = instead("isBlockhashValid", { context: { slot: node.slot - 1 }, value: false });
    expect((await readOn(node, doubt, 5)).answer.kind).toBe("undecided");
    node.lie = (_, truth) => truth;
    const found = { searched: null, unusedAt: node.slot + 1 };
    expect(await readOne(node, { ...doubt, found })).toEqual({ kind: "undecided", found, more: false, fault: "old_answer" });
  });

  const DOWN: readonly [string, (node: FakeSvm) => void, string][] = [
    ["is of another cluster", (node) => (node.genesis = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"), "wrong_chain"],
    ["has no time for its slot", (node) => (node.lie = instead("getBlockTime", null)), "invalid_response"],
    ["is down", (node) => (node.before = async () => new Response("", { status: 503 })), "http_503"],
    ["answers with megabytes", (node) => (node.before = async () => new Response("x".repeat(LIMITS.rpcAnswerBytes + 1))), "too_large"],
  ];
  test.each(DOWN)("[PY8] it %s: nothing is decided", async (_, spoil, reason) => {
    const node = new FakeSvm();
    node.land(LANDED);
    spoil(node);
    await expect(readOne(node)).rejects.toMatchObject({ name: "RpcFailure", reason });
  });

  test("[PY8] one wrong answer concerns its own payment only", async () => {
    const node = new FakeSvm();
    const other = transaction({ memo: "memo-3" });
    const bad = node.land(transaction({ memo: "memo-3", signed: true }).base64, { memo: "[6] memo-3" });
    const signature = node.land(LANDED, { memo: "[6] memo-1" });
    node.lie = (call, truth) => (call.method === "getTransaction" && call.params[0] === bad ? null : truth);
    const answers = await chain().read([doubtOf(node, { what: other }), doubtOf(node), { ...doubtOf(node), payload: "{}" }], node.time);
    expect(answers).toEqual([
      { kind: "undecided", found: null, more: false, fault: "invalid_response" },
      { kind: "settled", transaction: signature },
      { kind: "undecided", found: null, more: false, fault: "payload_erased" },
    ]);
  });
});

describe("how much is asked", () => {
  test("[PY8] of a long history only what may be ours is read: by its time, and by its memos; so many at once, and the search goes on", async () => {
    const node = new FakeSvm();
    const signature = node.land(LANDED, { memo: "[6] memo-1" });
    // Before the payment was signed; with another memo; after its time.
    for (let n = 0; n < 30; n++) node.land(OTHER, { memo: "[6] memo-2" });
    for (let n = 0; n < 30; n++) node.land(OTHER, { time: node.time + 20 * TIMING.svmLifetime });
    expect(await readOne(node)).toEqual({ kind: "settled", transaction: signature });
    expect(node.calls.filter(({ method }) => method === "getTransaction").length).toBe(1);
    for (let n = 0; n < 25; n++) node.land(OTHER);
    node.calls.length = 0;
    const { answer, readings } = await readOn(node, doubtOf(node));
    expect([answer, readings]).toEqual([{ kind: "settled", transaction: signature }, 3]);
    expect(node.calls.filter(({ method }) => method === "getTransaction").length).toBeLessThanOrEqual(3 * LIMITS.chainTransactions);
  });

  test("[PY8] where a reading ends, the next one begins: none of what may be ours is left out between them", async () => {
    const node = new FakeSvm();
    const signature = node.land(LANDED);
    for (let n = 0; n < LIMITS.chainTransactions; n++) node.land(OTHER);
    expect(await readOn(node, doubtOf(node))).toEqual({ answer: { kind: "settled", transaction: signature }, readings: 2 });
  });

  test("[PY8] two readings of a history of several pages are enough for what has expired, as of a short one", async () => {
    const node = new FakeSvm();
    node.isValid = false;
    for (let n = 0; n < LIMITS.chainSignatures + 10; n++) node.land(OTHER, { memo: "[6] memo-2" });
    expect(await readOn(node, doubtOf(node, { left: -SECOND }), 10)).toEqual({ answer: { kind: "void", proof: "expired" }, readings: 4 });
  });

  test("[PY8] a history of more than one page is searched to the time before the payment, and no further", async () => {
    const node = new FakeSvm();
    for (let n = 0; n < 2_500; n++) node.land(OTHER, { time: node.time - 20 * TIMING.svmLifetime, memo: "[6] memo-2" });
    const signature = node.land(LANDED);
    for (let n = 0; n < 2_100; n++) node.land(OTHER, { memo: "[6] memo-2" });
    expect(await readOn(node, doubtOf(node))).toEqual({ answer: { kind: "settled", transaction: signature }, readings: 3 });
    node.landed.splice(2_100, 1);
    expect(await readOn(node, doubtOf(node), 3)).toMatchObject({ answer: { kind: "undecided", more: false } });
  });

  test("[PY8] payments note no block, and nobody is asked for one", async () => {
    const node = new FakeSvm();
    expect(await chain().block()).toBeNull();
    expect(node.calls).toEqual([]);
  });
});
