import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import type { ChainAnswer, Doubt, Found } from "../../../src/coordinator/payment/chain.ts";
import { EvmChain } from "../../../src/coordinator/payment/chain-evm.ts";
import { cancelled, FakeEvm, nonceOf, OTHER, PAYEE, PAYER, RPC_URL, TOKEN, transfer, used } from "../../support/fake-evm.ts";

const AMOUNT = 1_000;
const NONCE = nonceOf(0);

type Given = { n?: number; until?: number; block?: number | null; found?: Found | null; validAfter?: number };

/** A payment that was noted at block 9,950 and is good until block `until`. */
function doubtOf(node: FakeEvm, { n = 0, until = 10_300, block = 9_950, found = null, validAfter = 0 }: Given = {}): Doubt {
  const authorization = {
    from: PAYER,
    to: PAYEE,
    value: String(AMOUNT),
    validAfter: String(validAfter),
    validBefore: String(node.timeOf(until)),
    nonce: nonceOf(n),
  };
  const requirements = { scheme: "exact", network: "eip155:10143", asset: TOKEN.replace("aa", "AA"), payTo: PAYEE.replace("bb", "BB"), amount: String(AMOUNT) };
  const payload = JSON.stringify({ x402Version: 2, accepted: requirements, payload: { signature: "0x00", authorization } });
  return { key: `k${n}`, payload, requirements: JSON.stringify(requirements), expiresAt: node.timeOf(until) * 1_000, block, found };
}

const chain = () => new EvmChain({ url: RPC_URL, deadline: 1_000 }, "eip155:10143");
const nowOf = (node: FakeEvm) => node.timeOf(node.finalized) * 1_000 + 2_000;

async function readOne(node: FakeEvm, doubt = doubtOf(node)): Promise<ChainAnswer> {
  const [answer] = await chain().read([doubt], nowOf(node));
  if (answer === undefined) throw new Error("no answer");
  return answer;
}

/** Reads as the hub does, until it is decided or `most` readings have left it open. */
async function readOn(node: FakeEvm, doubt: Doubt, most = 60): Promise<{ answer: ChainAnswer; readings: number }> {
  let found = doubt.found;
  for (let readings = 1; ; readings++) {
    const answer = await readOne(node, { ...doubt, found });
    if (answer.kind !== "undecided" || readings === most) return { answer, readings };
    found = answer.found;
  }
}

describe("what became of an authorization", () => {
  test("[PY8] the next event of the token after its use is our transfer: settled, by that transaction", async () => {
    const node = new FakeEvm();
    node.mine(9_960, transfer(AMOUNT));
    // Events of other contracts in between do not matter.
    const hash = node.mine(9_980, { address: OTHER, topics: [] }, used(NONCE), { address: OTHER, topics: ["0x01"] }, transfer(AMOUNT), transfer(5));
    expect(await readOne(node)).toEqual({ kind: "settled", transaction: hash });
    // Their numbers give the order, not their places in the answer.
    node.lie = ({ method }, truth) => {
      const receipt = truth as { logs: unknown[] };
      return method === "eth_getTransactionReceipt" ? { ...receipt, logs: receipt.logs.toReversed() } : truth;
    };
    expect(await readOne(node)).toEqual({ kind: "settled", transaction: hash });
  });

  test.each([
    ["to somebody else", [used(NONCE), transfer(AMOUNT, OTHER)]],
    ["of less", [used(NONCE), transfer(AMOUNT - 1)]],
    ["of more", [used(NONCE), transfer(AMOUNT + 1)]],
    ["from somebody else", [used(NONCE), transfer(AMOUNT, PAYEE, OTHER)]],
    ["by another authorization", [used(NONCE), used(nonceOf(7)), transfer(AMOUNT)]],
    ["before it", [transfer(AMOUNT), used(NONCE)]],
    ["of another token", [used(NONCE), { ...transfer(AMOUNT), address: OTHER }]],
    ["that pays for another authorization already", [used(NONCE), transfer(AMOUNT, OTHER), used(nonceOf(7)), transfer(AMOUNT)]],
  ])("[PY8] its use is followed by a transfer %s: void, it was used elsewhere", async (_, events) => {
    const node = new FakeEvm();
    node.mine(9_980, ...events);
    expect(await readOne(node)).toEqual({ kind: "void", proof: "used_elsewhere" });
  });

  test("[PY8] two authorizations that one transaction uses have a transfer each", async () => {
    const node = new FakeEvm();
    const hash = node.mine(9_980, used(NONCE), transfer(AMOUNT), used(nonceOf(1)), transfer(AMOUNT));
    const answers = await chain().read([doubtOf(node), doubtOf(node, { n: 1 })], nowOf(node));
    expect(answers).toEqual([
      { kind: "settled", transaction: hash },
      { kind: "settled", transaction: hash },
    ]);
  });

  test("[PY8] it was cancelled: void", async () => {
    const node = new FakeEvm();
    node.mine(9_980, cancelled(NONCE));
    expect(await readOne(node)).toEqual({ kind: "void", proof: "cancelled" });
  });

  test("[PY8] what happened after the finalized block does not count", async () => {
    const node = new FakeEvm();
    node.mine(10_001, cancelled(NONCE));
    expect(await readOne(node)).toEqual({ kind: "undecided", found: { searched: null, unusedAt: 10_000 }, more: false });
    node.finalized = 10_001;
    expect(await readOn(node, doubtOf(node))).toMatchObject({ answer: { kind: "void", proof: "cancelled" } });
  });

  test("[PY8] it expired unused by the clock of the chain and by ours: void, when two readings say so", async () => {
    const node = new FakeEvm();
    const doubt = doubtOf(node, { until: 10_300 });
    node.finalized = 10_299;
    expect((await readOn(node, doubt, 5)).answer).toMatchObject({ kind: "undecided" });
    node.finalized = 10_300;
    // Our own clock is behind.
    const [early] = await chain().read([{ ...doubt, found: { searched: null, unusedAt: 10_299 } }], doubt.expiresAt - 1);
    expect(early).toMatchObject({ kind: "undecided" });
    expect(await readOne(node, doubt)).toEqual({ kind: "undecided", found: { searched: null, unusedAt: 10_300 }, more: true });
    expect(await readOn(node, doubt)).toEqual({ answer: { kind: "void", proof: "expired" }, readings: 2 });
  });

  test("[PY8] between two readings it was used: it is not taken for expired", async () => {
    const node = new FakeEvm();
    const doubt = doubtOf(node);
    node.finalized = 10_400;
    const hash = node.mine(10_410, used(NONCE), transfer(AMOUNT));
    const first = await readOne(node, doubt);
    node.finalized = 10_420;
    expect(await readOne(node, { ...doubt, found: first.kind === "undecided" ? first.found : null })).toEqual({ kind: "settled", transaction: hash });
  });
});

describe("an RPC that cannot be believed", () => {
  type Lie = FakeEvm["lie"];
  const logs =
    (change: (log: Record<string, unknown>) => unknown): Lie =>
    (call, truth) =>
      call.method === "eth_getLogs" ? (truth as Record<string, unknown>[]).map(change) : truth;
  const instead =
    (method: string, result: unknown): Lie =>
    (call, truth) =>
      call.method === method ? result : truth;
  const LIES: readonly [string, Lie][] = [
    ["says that it is unused, and shows how it was used", instead("eth_call", `0x${"0".repeat(64)}`)],
    ["shows two uses", (call, truth) => (call.method === "eth_getLogs" ? [truth, truth].flat() : truth)],
    ["shows a use by somebody else", logs((log) => ({ ...log, topics: used(NONCE, OTHER).topics }))],
    ["shows a use of another authorization", logs((log) => ({ ...log, topics: used(nonceOf(9)).topics }))],
    ["shows a cancellation by somebody else", logs((log) => ({ ...log, topics: cancelled(NONCE, OTHER).topics }))],
    ["shows the cancellation of another authorization", logs((log) => ({ ...log, topics: cancelled(nonceOf(9)).topics }))],
    ["shows a cancellation after the finalized block", logs((log) => ({ ...log, topics: cancelled(NONCE).topics, blockNumber: "0x3000" }))],
    ["shows a use of another token", logs((log) => ({ ...log, address: OTHER }))],
    ["shows a use after the finalized block", logs((log) => ({ ...log, blockNumber: "0x3000" }))],
    ["shows another event", logs((log) => ({ ...log, topics: transfer(AMOUNT).topics }))],
    ["answers with what is no list of events", instead("eth_getLogs", { length: 0 })],
    ["refuses the range of blocks", instead("eth_getLogs", new Error("range too large"))],
    ["knows no contract at the token's address", instead("eth_call", "0x")],
    ["answers with another type", instead("eth_call", `0x${"0".repeat(63)}2`)],
    ["has lost the transaction", instead("eth_getTransactionReceipt", null)],
    ["says that the transaction failed", (call, truth) => (call.method === "eth_getTransactionReceipt" ? { ...(truth as object), status: "0x0" } : truth)],
    ["has it in another block", (call, truth) => (call.method === "eth_getTransactionReceipt" ? { ...(truth as object), blockNumber: "0x1" } : truth)],
    ["leaves the use out of the transaction", (call, truth) => (call.method === "eth_getTransactionReceipt" ? { ...(truth as object), logs: [] } : truth)],
  ];

  test.each(LIES)("[PY8] it %s: the doubt stays, however often it is read and whatever the time", async (_, lie) => {
    const node = new FakeEvm();
    node.mine(9_980, used(NONCE), transfer(AMOUNT));
    node.lie = lie;
    node.finalized = 10_400;
    const { answer } = await readOn(node, doubtOf(node), 6);
    expect(answer).toMatchObject({ kind: "undecided" });
    expect(answer).toHaveProperty("fault");
  });

  test("[PY8] it says that it is used, and shows no event: the search begins again, and the doubt stays", async () => {
    const node = new FakeEvm();
    node.mine(9_000, used(NONCE), transfer(AMOUNT));
    expect(await readOne(node)).toEqual({ kind: "undecided", found: { searched: null, unusedAt: null, isOlder: true }, more: false, fault: "no_event" });
    // It was used before the block that was noted.
    expect(await readOn(node, doubtOf(node))).toMatchObject({ answer: { kind: "settled" } });
    node.lie = (call, truth) => (call.method === "eth_getLogs" ? [] : truth);
    expect((await readOn(node, doubtOf(node, { block: 8_000 }), 10)).answer.kind).toBe("undecided");
  });

  test("[PY8] an older node behind the same address does not make an authorization expire", async () => {
    const node = new FakeEvm();
    node.finalized = 10_350;
    const found = { searched: null, unusedAt: 10_400 };
    expect(await readOne(node, doubtOf(node, { found }))).toEqual({ kind: "undecided", found, more: false, fault: "old_answer" });
  });

  test("[PY8] it took back that it was unused: it is searched from the beginning", async () => {
    const node = new FakeEvm();
    const hash = node.mine(9_980, used(NONCE), transfer(AMOUNT));
    const found = { searched: null, unusedAt: 10_000 };
    expect(await readOne(node, doubtOf(node, { found }))).toMatchObject({ kind: "undecided", found: null, fault: "contradiction" });
    expect(await readOn(node, doubtOf(node, { found }))).toMatchObject({ answer: { kind: "settled", transaction: hash } });
  });

  const DOWN: readonly [string, (node: FakeEvm) => void, string][] = [
    ["is of another chain", (node) => (node.chainId = 1), "wrong_chain"],
    ["knows no finalized block", (node) => (node.lie = instead("eth_getBlockByNumber", null)), "invalid_response"],
    ["does not know what finalized is", (node) => (node.lie = instead("eth_getBlockByNumber", new Error("unknown tag"))), "rpc_error_-32000"],
    [
      "has a time beyond all bounds",
      (node) => (node.lie = instead("eth_getBlockByNumber", { number: "0x1", timestamp: `0x${"f".repeat(40)}` })),
      "invalid_response",
    ],
    ["is down", (node) => (node.before = async () => new Response("", { status: 503 })), "http_503"],
    ["answers with megabytes", (node) => (node.before = async () => new Response("x".repeat(LIMITS.rpcAnswerBytes + 1))), "too_large"],
    ["leads elsewhere", (node) => (node.before = async () => new Response(null, { status: 302, headers: { Location: "https://else.test" } })), "redirected"],
    ["answers with what is no JSON", (node) => (node.before = async () => new Response("<html>")), "invalid_response"],
  ];
  test.each(DOWN)("[PY8] it %s: nothing is decided", async (_, spoil, reason) => {
    const node = new FakeEvm();
    node.mine(9_980, cancelled(NONCE));
    spoil(node);
    await expect(readOne(node)).rejects.toMatchObject({ name: "RpcFailure", reason });
    await expect(chain().block()).rejects.toMatchObject({ reason });
  });

  test("[PY8] one wrong answer concerns its own payment only", async () => {
    const node = new FakeEvm();
    const hash = node.mine(9_980, used(NONCE), transfer(AMOUNT));
    node.mine(9_981, cancelled(nonceOf(1)));
    node.lie = (call, truth) => (call.method === "eth_call" && JSON.stringify(call.params).includes(nonceOf(1).slice(2)) ? "0x" : truth);
    const erased = { ...doubtOf(node, { n: 2 }), payload: "{}" };
    const answers = await chain().read([erased, doubtOf(node, { n: 1 }), doubtOf(node)], nowOf(node));
    expect(answers).toEqual([
      { kind: "undecided", found: null, more: false, fault: "payload_erased" },
      { kind: "undecided", found: null, more: false, fault: "invalid_response" },
      { kind: "settled", transaction: hash },
    ]);
  });
});

describe("how much is asked", () => {
  test("[PY8] three requests of at most 100 calls for as many payments as one reading takes, and pages of at most 100 blocks", async () => {
    const node = new FakeEvm();
    const all = Array.from({ length: chain().most }, (_, n) => doubtOf(node, { n, block: n % 2 === 0 ? null : 2_000 }));
    for (const { key } of all) node.mine(9_000 + Number(key.slice(1)), used(nonceOf(Number(key.slice(1)))), transfer(AMOUNT));
    const answers = await chain().read(all, nowOf(node));
    expect(answers.map(({ kind }) => kind)).toEqual(all.map(() => "undecided"));
    expect(node.requests.length).toBeLessThanOrEqual(3);
    expect(Math.max(...node.requests.map((calls) => calls.length))).toBeLessThanOrEqual(100);
    const pages = node.requests.flat().filter(({ method }) => method === "eth_getLogs");
    const sizes = pages.map(({ params: [page] }) => Number((page as { toBlock: string }).toBlock) - Number((page as { fromBlock: string }).fromBlock) + 1);
    expect(Math.max(...sizes)).toBe(LIMITS.chainPageBlocks);
    expect(all.length).toBeGreaterThan(10);
  });

  test("[PY8] a long search goes on page by page from the noted block, and finds what is there", async () => {
    const node = new FakeEvm();
    const hash = node.mine(9_990, used(NONCE), transfer(AMOUNT));
    const { answer, readings } = await readOn(node, doubtOf(node, { block: 8_000 }));
    expect(answer).toEqual({ kind: "settled", transaction: hash });
    expect(readings).toBe(Math.ceil(1_991 / (LIMITS.chainPages * LIMITS.chainPageBlocks)));
  });

  test("[PY8] where no block was noted, the search begins at the nearest known block that is older than the authorization", async () => {
    const node = new FakeEvm();
    const hash = node.mine(9_000, used(NONCE), transfer(AMOUNT));
    const doubt = doubtOf(node, { block: null, validAfter: node.timeOf(8_900) });
    expect(await readOne(node, doubt)).toEqual({ kind: "undecided", found: { searched: 8_400, unusedAt: null }, more: true });
    expect((await readOn(node, doubt)).answer).toEqual({ kind: "settled", transaction: hash });
    // Without such a time, what came to us a day ago at most cannot have been used before.
    node.finalized = 300_000;
    const later = doubtOf(node, { block: null, until: 300_300 });
    expect(await readOne(node, later)).toMatchObject({ found: { searched: 300_000 - 100 * 4 ** 5 } });
  });

  test("[PY8] where these blocks cannot be read, the search does not begin at the first block of the chain: they are read again", async () => {
    const node = new FakeEvm();
    const hash = node.mine(9_000, used(NONCE), transfer(AMOUNT));
    const doubt = doubtOf(node, { block: null, validAfter: node.timeOf(8_900) });
    node.lie = ({ method, params }, truth) => (method === "eth_getBlockByNumber" && params[0] !== "finalized" ? null : truth);
    expect(await readOne(node, doubt)).toEqual({ kind: "undecided", found: null, more: false, fault: "invalid_response" });
    node.lie = (_, truth) => truth;
    expect((await readOn(node, doubt)).answer).toEqual({ kind: "settled", transaction: hash });
  });

  test("[PY8] the block that payments note is older than any of them", async () => {
    const node = new FakeEvm();
    expect(await chain().block()).toBe(10_000 - LIMITS.chainMargin);
    node.finalized = 3;
    expect(await chain().block()).toBe(0);
  });
});
