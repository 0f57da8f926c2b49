import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { balanceOf, type Payment } from "./pay/pay.ts";
import type { Challenge } from "./pay/challenge.ts";
import { type FullLab, startLab } from "./start-lab.ts";
import { type Side, Till } from "./support/till.ts";

/** Long enough for an answer that would come. */
const SILENCE_MS = 150;

let lab: FullLab;
let till: Till;

beforeAll(async () => {
  lab = await startLab();
  till = new Till(lab);
});

afterEach(async () => {
  lab.facilitator.faults.clear();
  lab.facilitator.log.clear();
  await lab.facilitator.up();
});

afterAll(() => lab.stop());

const payee = (side: Side): Promise<bigint> => balanceOf(lab[side], lab[side].payTo);

async function order(side: Side): Promise<{ challenge: Challenge; payment: Payment; before: bigint }> {
  const challenge = till.ask(side);
  return { challenge, payment: await lab.pay(challenge), before: await payee(side) };
}

/** What a caller gets without a client library in between. */
function post(operation: "verify" | "settle", { payment, challenge }: { payment: Payment; challenge: Challenge }, signal?: AbortSignal): Promise<Response> {
  const { requirement } = challenge;
  const body = { x402Version: 2, paymentPayload: { x402Version: 2, accepted: requirement, payload: payment.payload }, paymentRequirements: requirement };
  return fetch(`${lab.facilitator.url}/${operation}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
}

describe("down", () => {
  it("refuses connections and comes back at the same address", async () => {
    const { url } = lab.facilitator;
    await lab.facilitator.down();
    await expect(fetch(`${url}/supported`)).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
    expect(lab.facilitator.isUp).toBe(false);
    await lab.facilitator.up();
    expect((await fetch(`${url}/supported`)).status).toBe(200);
  });

  it("cuts the calls under way", async () => {
    const { faults, log } = lab.facilitator;
    faults.add({ operation: "verify", fault: { kind: "hang" } });
    const call = post("verify", await order("evm")).then(
      () => "answered",
      () => "cut",
    );
    await expect.poll(() => log.counts.verify).toBe(1);
    await lab.facilitator.down();
    expect(await call).toBe("cut");
  });
});

describe("hang", () => {
  it("does not answer until the faults are cleared, and then cuts the connection", async () => {
    const { faults, log } = lab.facilitator;
    faults.add({ operation: "settle", fault: { kind: "hang" } });
    const { before, ...paid } = await order("evm");
    const outcome = post("settle", paid).then(
      () => "answered",
      () => "cut",
    );
    expect(await Promise.race([outcome, delay(SILENCE_MS, "silent")])).toBe("silent");
    faults.clear();
    expect(await outcome).toBe("cut");
    expect(log.calls).toMatchObject([{ operation: "settle", fault: "hang", ended: "cut", status: null, result: null }]);
    expect(await payee("evm")).toBe(before);
  });

  it("notices a caller that gives up", async () => {
    const { faults, log } = lab.facilitator;
    faults.add({ operation: "verify", fault: { kind: "hang" } });
    await expect(post("verify", await order("evm"), AbortSignal.timeout(SILENCE_MS))).rejects.toThrow("timeout");
    await expect.poll(() => log.calls[0]?.ended).toBe("left");
  });
});

it("a settlement goes on without its caller, and the facilitator is at rest only after it", async () => {
  const { faults, log } = lab.facilitator;
  faults.add({ operation: "settle", fault: { kind: "slow", ms: 60_000 } });
  const { before, ...paid } = await order("svm");
  await expect(post("settle", paid, AbortSignal.timeout(SILENCE_MS))).rejects.toThrow("timeout");
  await expect.poll(() => log.calls[0]?.ended).toBe("left");
  expect(await payee("svm")).toBe(before);
  faults.clear();
  await lab.facilitator.atRest();
  expect(await payee("svm")).toBe(before + BigInt(paid.challenge.requirement.amount));
});

it("slow answers truly, late", async () => {
  lab.facilitator.faults.add({ operation: "verify", fault: { kind: "slow", ms: SILENCE_MS } });
  const { payment, challenge } = await order("svm");
  const began = performance.now();
  expect(await till.verify(payment, challenge)).toMatchObject({ isValid: true });
  expect(performance.now() - began).toBeGreaterThan(SILENCE_MS - 5);
});

it.each([
  [{ kind: "status" } as const, 500, "application/json"],
  [{ kind: "status", status: 503, body: "busy" } as const, 503, "text/html"],
  [{ kind: "garbage" } as const, 200, "text/html"],
  [{ kind: "garbage", body: "{}" } as const, 200, "application/json"],
])("%o says that and moves nothing", async (fault, status, type) => {
  lab.facilitator.faults.add({ operation: "settle", fault });
  const { before, ...paid } = await order("evm");
  const response = await post("settle", paid);
  expect(response.status).toBe(status);
  expect(response.headers.get("content-type")).toBe(type);
  expect(await payee("evm")).toBe(before);
});

it("reset cuts the connection and moves nothing", async () => {
  lab.facilitator.faults.add({ operation: "settle", fault: { kind: "reset" } });
  const { before, ...paid } = await order("svm");
  await expect(post("settle", paid)).rejects.toThrow("fetch failed");
  expect(await payee("svm")).toBe(before);
});

describe.each(["evm", "svm"] as const)("lost on the %s", (side) => {
  it.each(["reset", "status", "hang"] as const)("[PY8] moves the money and tells nobody: %s", async (how) => {
    const { faults, log } = lab.facilitator;
    faults.add({ operation: "settle", fault: { kind: "lost", how }, times: 1 });
    const { before, ...paid } = await order(side);
    const outcome = post("settle", paid).then(
      ({ status }) => status,
      () => "cut",
    );
    await expect.poll(() => payee(side)).toBe(before + 1_000n);
    if (how === "hang") {
      expect(await Promise.race([outcome, delay(SILENCE_MS, "silent")])).toBe("silent");
      faults.clear();
    }
    expect(await outcome).toBe(how === "status" ? 500 : "cut");
    expect(log.calls[0]).toMatchObject({ fault: "lost", payer: paid.payment.payer, result: { success: true } });
    // Asked again with the same payment: it is gone, and the money with it.
    expect(await till.settle(paid.payment, paid.challenge)).toMatchObject({ success: false });
    expect(log.calls[1]).toMatchObject({ fault: null, paymentHash: log.calls[0]?.paymentHash });
    // The same after a restart; the SVM scheme then remembers nothing of its own and has only the chain's word, in `invalidMessage` at most.
    lab.facilitator.forget();
    const after = await till.settle(paid.payment, paid.challenge);
    expect(after.errorReason).toBe(side === "evm" ? "invalid_exact_evm_nonce_already_used" : "invalid_exact_svm_transaction_simulation_failed");
    expect(await payee(side)).toBe(before + 1_000n);
  });

  it("[PY8] pending: sent but not confirmed, and the next settle finds it", async () => {
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "pending" }, times: 1 });
    const { payment, challenge, before } = await order(side);
    const first = await till.settle(payment, challenge);
    expect(first).toMatchObject({ success: false, errorReason: "settlement_pending", transaction: expect.stringMatching(/.{60,}/) });
    await expect.poll(() => payee(side)).toBe(before + 1_000n);
    expect(await till.settle(payment, challenge)).toMatchObject({ success: true, transaction: first.transaction });
    expect(await payee(side)).toBe(before + 1_000n);
  });

  it("refuse: for no good reason, with HTTP 200 or an error status", async () => {
    const { faults } = lab.facilitator;
    faults.add({ operation: "verify", fault: { kind: "refuse", reason: "because" }, times: 1 });
    faults.add({ operation: "settle", fault: { kind: "refuse" }, times: 1 });
    faults.add({ operation: "settle", fault: { kind: "refuse", status: 400 }, times: 1 });
    const { payment, challenge, before } = await order(side);
    expect(await till.verify(payment, challenge)).toMatchObject({ isValid: false, invalidReason: "because", payer: payment.payer });
    expect(await till.settle(payment, challenge)).toMatchObject({ success: false, errorReason: "insufficient_funds" });
    expect((await post("settle", { payment, challenge })).status).toBe(400);
    expect(await payee(side)).toBe(before);
  });

  it("lie: valid and settled, without a look", async () => {
    const { faults } = lab.facilitator;
    faults.add({ operation: "verify", fault: { kind: "lie" } });
    faults.add({ operation: "settle", fault: { kind: "lie" } });
    const challenge = till.ask(side);
    const payment = await lab.pay(challenge, { wrong: "bad_signature" });
    const before = await payee(side);
    expect(await till.verify(payment, challenge)).toMatchObject({ isValid: true, payer: payment.payer });
    expect(await till.settle(payment, challenge)).toMatchObject({ success: true, network: lab[side].network });
    expect(await payee(side)).toBe(before);
  });
});

it("a fault is for its operation, its network, its payer and its number of calls", async () => {
  const { faults, log } = lab.facilitator;
  const statuses = async (side: Side): Promise<number[]> => {
    const paid = await order(side);
    return [(await post("verify", paid)).status, (await post("verify", paid)).status];
  };
  faults.add({ operation: "settle", fault: { kind: "status" } });
  expect(await statuses("evm")).toEqual([200, 200]);
  faults.add({ operation: "verify", network: lab.svm.network, fault: { kind: "status" }, times: 1 });
  expect(await statuses("evm")).toEqual([200, 200]);
  expect(await statuses("svm")).toEqual([500, 200]);
  faults.add({ operation: "verify", payer: lab.evm.payers[1]!.address, fault: { kind: "status" } });
  expect(await statuses("evm")).toEqual([200, 200]);
  faults.clear();
  faults.add({ operation: "supported", fault: { kind: "status" }, times: 1 });
  const supported = (): Promise<number> => fetch(`${lab.facilitator.url}/supported`).then(({ status }) => status);
  expect([await supported(), await supported()]).toEqual([500, 200]);
  expect(log.counts).toEqual({ verify: 8, settle: 0, supported: 2 });
});

it("/supported names both networks, and every fee payer among the signers", async () => {
  const supported = (await (await fetch(`${lab.facilitator.url}/supported`)).json()) as { kinds: { network: string }[]; signers: Record<string, string[]> };
  expect(supported.kinds.map(({ network }) => network)).toEqual([lab.evm.network, lab.svm.network]);
  expect(supported.signers).toEqual({
    "eip155:*": [lab.evm.facilitator.address],
    "solana:*": lab.svm.feePayers.map(({ address }) => address),
  });
});

it("[PY8] while the chain makes no blocks, settle waits; then it succeeds", async () => {
  const { payment, challenge, before } = await order("evm");
  await lab.evm.pause();
  const settling = till.settle(payment, challenge);
  expect(await Promise.race([settling, delay(SILENCE_MS, "waiting")])).toBe("waiting");
  expect(await payee("evm")).toBe(before);
  await lab.evm.resume();
  expect(await settling).toMatchObject({ success: true });
  expect(await payee("evm")).toBe(before + 1_000n);
});

it("a misshapen payment is answered with a 500, as x402's own server does", async () => {
  const { challenge, payment } = await order("evm");
  const broken = { ...payment, payload: { authorization: null } } as unknown as Payment;
  expect((await post("verify", { payment: broken, challenge })).status).toBe(500);
});
