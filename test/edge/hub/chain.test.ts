import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { shortJobId } from "../../../src/protocol/text.ts";
import { HOUR, TIMING } from "../../../src/protocol/times.ts";
import type { PaymentInput } from "../../../src/coordinator/hub/rpc.ts";
import { cancelled, FakeEvm, nonceOf, PAYEE, PAYER, RPC_URL, TOKEN, transfer, used } from "../../support/fake-evm.ts";
import { commitInput, TestHub, until, withSettings } from "../support/worker-hub.ts";

withSettings({ EVM_RPC_URL: RPC_URL });

/** Nobody else is reached: the facilitator's connection is cut, so every settle call is lost. */
let node: FakeEvm;
let logged: () => Record<string, unknown>[];
beforeEach(() => {
  node = new FakeEvm();
  const lines: string[] = [];
  for (const level of ["warn", "error"] as const) vi.spyOn(console, level).mockImplementation((line: string) => void lines.push(line));
  logged = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
});
afterEach(() => {
  expect(JSON.stringify(logged())).not.toContain("secret-api-key");
  vi.restoreAllMocks();
});

/** Nonces that no other test of this file uses: the tests share a D1. */
let nextNonce = 0;

function paymentOf(n: number): PaymentInput {
  const authorization = {
    from: PAYER,
    to: PAYEE,
    value: "1000",
    validAfter: String(node.timeOf(9_850)),
    validBefore: String(node.timeOf(10_300)),
    nonce: nonceOf(n),
  };
  const terms = { scheme: "exact", network: "eip155:10143", amount: "1000", asset: TOKEN, payTo: PAYEE };
  return {
    ...{ key: `eip155:10143:${TOKEN}:${PAYER}:${nonceOf(n)}`, digest: "digest", binding: `binding ${n}`, payer: PAYER, asset: `eip155:10143/${TOKEN}` },
    ...{ amount: "1000", expiresAt: Date.now() + 300_000, requirements: JSON.stringify(terms) },
    payload: JSON.stringify({ x402Version: 2, accepted: terms, payload: { signature: "0x00", authorization } }),
  };
}

const events = (name: string) => logged().filter(({ event }) => event === name);
const rows = (hub: TestHub) =>
  hub.sql<{ kind: string; reason: string | null; block: number | null; payload: string | null }>(
    "SELECT kind, phase ->> '$.reason' AS reason, block, payload FROM payments ORDER BY key",
  );
const statesIn = (calls: readonly { method: string }[]) => calls.filter(({ method }) => method === "eth_call").length;

/** A job whose settlement nobody knows. */
async function doubtful(hub: TestHub, payment: PaymentInput): Promise<string> {
  const input = commitInput();
  expect(await hub.stub.reserve(input, payment)).toEqual({ state: "reserved" });
  expect(await hub.stub.submit(input, payment.key, PAYER, payment)).toMatchObject({ ok: true, jobId: input.id, settlement: null });
  return input.id;
}

describe("payments in doubt, with EVM_RPC_URL", () => {
  test("[PY8] the chain shows the transfer: the job is assigned, its answer names the transaction, and it is logged", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const n = nextNonce++;
    const id = await doubtful(hub, paymentOf(n));
    expect(await rows(hub)).toMatchObject([{ kind: "unknown" }]);
    const hash = node.mine(9_990, used(nonceOf(n)), transfer(1_000));
    await hub.pass(TIMING.chainFirst);
    expect(await worker.assigned()).toMatchObject({ job_id: id });
    expect(JSON.parse((await hub.stub.settlement(id)) ?? "")).toMatchObject({ success: true, transaction: hash });
    expect(events("chain_settled")).toEqual([{ level: "warning", event: "chain_settled", job: shortJobId(id) }]);
  });

  test("[PY8] the chain shows that it was cancelled: the job fails, the payload is erased, and the operator's copy says why", async () => {
    const hub = new TestHub();
    await hub.worker();
    const n = nextNonce++;
    const payment = paymentOf(n);
    const id = await doubtful(hub, payment);
    node.mine(9_990, cancelled(nonceOf(n)));
    await hub.pass(TIMING.chainFirst);
    await until(async () => (await hub.job(id)).status === "failed", "failed");
    expect(await hub.job(id)).toMatchObject({ result: { error: "payment_failed" } });
    expect(await rows(hub)).toMatchObject([{ kind: "void", reason: "by_chain", payload: null }]);
    expect(events("chain_void")).toEqual([{ level: "warning", event: "chain_void", job: shortJobId(id), proof: "cancelled" }]);
    const copy = () => env.DB.prepare("SELECT state, reason FROM payments WHERE key = ?").bind(payment.key).first();
    await until(async () => (await copy())?.["state"] === "void", "void in D1");
    expect(await copy()).toEqual({ state: "void", reason: "by_chain" });
  });

  test("[PY8] a payment of another network than the instance has now is not looked for: here it was never used", async () => {
    const hub = new TestHub();
    await hub.worker();
    const n = nextNonce++;
    await doubtful(hub, paymentOf(n));
    await hub.sql(`UPDATE payments SET asset = 'eip155:1/${TOKEN}'`);
    node.mine(9_990, cancelled(nonceOf(n)));
    const before = node.requests.length;
    await hub.pass(TIMING.chainFirst);
    await hub.inside((inner) => inner.alarm());
    expect(await rows(hub)).toMatchObject([{ kind: "unknown" }]);
    expect(statesIn(node.requests.slice(before).flat())).toBe(0);
  });

  test("[PY8] a payment notes a block from before it was settled, once, and the RPC is asked for it at most every 30 s", async () => {
    const hub = new TestHub();
    await hub.stub.reserve(commitInput(), paymentOf(nextNonce++));
    await until(async () => node.requests.length > 0, "the question for the block");
    node.finalized = 20_000;
    await doubtful(hub, paymentOf(nextNonce++));
    await doubtful(hub, paymentOf(nextNonce++));
    const noted = await rows(hub);
    expect(noted.map(({ block }) => block)).toEqual([10_000 - LIMITS.chainMargin, 10_000 - LIMITS.chainMargin]);
    expect(node.requests.length).toBe(1);
    hub.skip(30_000);
    await hub.stub.reserve(commitInput(), paymentOf(nextNonce++));
    await until(async () => node.requests.length === 2, "the next question");
    await hub.sql("UPDATE payments SET rev = rev + 1");
    expect((await rows(hub))[1]?.block).toBe(10_000 - LIMITS.chainMargin);
  });

  test("[PY8] while the RPC is down the doubt stays and no commit waits; it is read again after longer and longer pauses, and decided when it is back", async () => {
    const hub = new TestHub();
    await hub.worker();
    let questions = 0;
    node.before = async () => {
      questions++;
      return new Response("", { status: 503 });
    };
    const n = nextNonce++;
    const id = await doubtful(hub, paymentOf(n));
    node.mine(9_990, cancelled(nonceOf(n)));
    const asked: number[] = [];
    for (let second = 0; second < 130; second++) {
      const before = questions;
      await hub.pass(1_000);
      await until(async () => (await hub.inside((_, { storage }) => storage.getAlarm())) !== null, "an alarm");
      if (questions > before) asked.push(second);
    }
    expect(questions).toBeGreaterThan(4);
    expect(questions).toBeLessThan(10);
    const pauses = asked.slice(1).map((at, n) => at - (asked[n] ?? 0));
    expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
    expect((await hub.job(id)).status).toBe("pending");
    expect(events("chain_unreadable")).toContainEqual(expect.objectContaining({ level: "error", reason: "http_503" }));
    node.before = null;
    await hub.pass(TIMING.settleRetryMax);
    await until(async () => {
      await hub.pass(TIMING.chainFirst);
      return (await rows(hub))[0]?.reason === "by_chain";
    }, "decided");
  });

  test("[PY8] a hub that starts reads all that is unresolved, oldest first, also what nobody asks for any more; a bounded number in each round", async () => {
    const hub = new TestHub();
    const many = 25;
    const first = nextNonce;
    for (let n = 0; n < many; n++) {
      await doubtful(hub, paymentOf(nextNonce++));
      // Four at most may wait for one payer.
      if (n % 4 < 3 && n < many - 1) continue;
      await hub.sql(`UPDATE payments SET kind = 'unresolved', doubts = 3, phase = '{"kind":"unresolved","reason":"expired","retryDue":null}'`);
      await hub.evict();
    }
    for (let n = 0; n < many; n++) node.mine(9_900 + n, ...(n % 2 === 0 ? [used(nonceOf(first + n)), transfer(1_000)] : [cancelled(nonceOf(first + n))]));
    node.requests.length = 0;
    await hub.stub.workersOnline();
    const decided = async () => (await rows(hub)).filter(({ kind }) => kind !== "unresolved").length;
    for (let done = 0; done < many; done = await decided()) {
      await hub.pass(TIMING.chainFirst);
      await until(async () => (await decided()) > done, "a round has ended");
    }
    // A round asks for the states of all its payments in one request.
    const rounds = node.requests.map(statesIn).filter((states) => states > 0);
    expect(rounds.length).toBeGreaterThanOrEqual(3);
    expect(Math.max(...rounds)).toBeLessThanOrEqual(11);
    const kinds = (await rows(hub)).map(({ kind }) => kind);
    expect([kinds.filter((kind) => kind === "credit").length, kinds.filter((kind) => kind === "void").length]).toEqual([13, 12]);
    expect(events("credit_opened").length).toBe(13);
  });

  test("[PY8] a hub that hibernates keeps its pauses and how far it has searched: it asks nothing before a pause is over; what is decided leaves", async () => {
    const hub = new TestHub();
    await hub.worker();
    const n = nextNonce++;
    await doubtful(hub, paymentOf(n));
    const reads = () => hub.sql<{ due: number; readings: number; found: string | null }>("SELECT due, readings, found FROM chain_reads");
    for (let readings = 1; readings <= 5; readings++) {
      node.requests.length = 0;
      // One second, then 2, 4, 8 and 16.
      await hub.pass(readings === 1 ? TIMING.chainFirst : 2 ** (readings - 1) * 1_000);
      await until(async () => statesIn(node.requests.flat()) === 1, `reading ${readings}`);
    }
    await until(async () => (await reads())[0]?.readings === 5, "the pause is stored");
    const [stored] = await reads();
    expect(stored).toEqual({ due: Date.now() + 32_000, readings: 5, found: JSON.stringify({ searched: null, unusedAt: node.finalized }) });
    node.requests.length = 0;
    node.finalized += 50;
    for (let passed = 0; passed < 30_000; passed += 10_000) {
      await hub.evict();
      await hub.stub.wake();
      await hub.pass(10_000);
    }
    expect(await reads()).toEqual([stored]);
    expect(node.requests).toEqual([]);
    await hub.pass(2_000);
    await until(async () => (await reads())[0]?.readings === 6, "the next reading");
    const search = node.requests.flat().find(({ method }) => method === "eth_getLogs");
    expect(search?.params).toMatchObject([{ fromBlock: `0x${(node.finalized - 49).toString(16)}` }]);

    // A clock that was set back: no pause is longer than an hour.
    await hub.sql(`UPDATE chain_reads SET due = ${Date.now() + 2 * HOUR}`);
    await hub.evict();
    await hub.stub.wake();
    await until(async () => (await reads())[0]?.readings === 7, "read at once");
    node.mine(++node.finalized, cancelled(nonceOf(n)));
    await hub.evict();
    await hub.pass(TIMING.settleRetryMax);
    await until(async () => (await rows(hub))[0]?.reason === "by_chain", "decided");
    expect(await reads()).toEqual([]);
  });

  test("[PY8] what a bug has set aside is not read", async () => {
    const hub = new TestHub();
    await doubtful(hub, paymentOf(nextNonce++));
    await hub.sql(`UPDATE payments SET kind = 'unresolved', phase = '{"kind":"unresolved","reason":"illegal_move","retryDue":null}'`);
    await hub.evict();
    node.requests.length = 0;
    await hub.stub.workersOnline();
    await hub.pass(TIMING.settleRetryMax);
    await hub.pass(TIMING.settleRetryMax);
    expect(statesIn(node.requests.flat())).toBe(0);
  });
});
