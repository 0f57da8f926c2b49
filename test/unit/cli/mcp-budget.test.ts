import { describe, expect, it } from "vitest";
import { Budget, Purchase, SpendLimitError } from "../../../src/cli/paying.ts";
import {
  BadRequestError,
  ConflictError,
  JobFailedError,
  NotFoundError,
  PaymentLimitError,
  type PaymentHook,
  PaymentRequiredError,
  RateLimitedError,
  UnavailableError,
} from "../../../src/sdk/index.ts";
import { loseAnswer, rejection, reply, reset } from "../sdk/support/faults.ts";
import { type Fault, RouterServer } from "../sdk/support/router-server.ts";

const offer = (amount: string) => ({ scheme: "exact", price: "$0.010", network: "eip155:10143", payTo: "0x1", amount });
const challenge = (...amounts: string[]) => ({ error: "payment_required", accepts: amounts.map(offer) });
const attempt = { number: 1, header: null, signal: new AbortController().signal };
const pay: PaymentHook = () => Promise.resolve({ "X-PAYMENT": "signed" });

const COMMIT = "POST /v1/jobs/commit";
const proceed: Fault = (response, _request, go) => go(response);

/** A payment of $0.01 that was signed. */
async function signed(budget: Budget, amount = "10000"): Promise<Purchase> {
  const purchase = new Purchase(budget);
  await purchase.within(pay)(challenge(amount), attempt);
  return purchase;
}

const failed = (charged: boolean | null): JobFailedError => Object.assign(new JobFailedError("job", "worker_lost"), { charged });

describe("the spending limit of mcp", () => {
  it("counts a payment before it is signed: of two at once, the one that does not fit is refused, and its hook is not asked", async () => {
    const budget = new Budget(15_000n);
    let asked = 0;
    const slow: PaymentHook = async () => {
      asked++;
      await Promise.resolve();
      return { "X-PAYMENT": "signed" };
    };
    const calls = await Promise.allSettled([1, 2].map(() => new Purchase(budget).within(slow)(challenge("10000"), attempt)));
    expect(calls.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    expect([asked, budget.counted]).toEqual([1, 10_000n]);
    const [, refused] = calls;
    expect(refused?.status === "rejected" && refused.reason).toBeInstanceOf(SpendLimitError);
    expect(refused?.status === "rejected" && String(refused.reason)).toContain("would cost $0.010, and $0.010 of the $0.015");
  });

  it("counts the most expensive offer, wherever it stands, because a hook may choose any", async () => {
    const budget = new Budget(50_000n);
    await expect(signed(budget, "60000")).rejects.toThrow(SpendLimitError);
    for (const amounts of [
      ["10000", "60000"],
      ["60000", "10000"],
    ]) {
      await expect(new Purchase(budget).within(pay)(challenge(...amounts), attempt)).rejects.toThrow(SpendLimitError);
    }
    const header = Buffer.from(JSON.stringify({ accepts: [{ amount: "60000" }] })).toString("base64");
    await expect(new Purchase(budget).within(pay)(challenge("10000"), { ...attempt, header })).rejects.toThrow(SpendLimitError);
    await expect(new Purchase(budget).within(pay)(challenge("much"), attempt)).rejects.toThrow("malformed");
    expect(budget.counted).toBe(0n);
  });

  it.each([
    ["a job that failed and was not charged", failed(false), 0n],
    ["a job that failed and was charged, even if it became a credit", failed(true), 10_000n],
    ["a job that failed, and it is not known whether it was charged", failed(null), 10_000n],
    ["a payment that was refused", new PaymentRequiredError("no", [], {}), 0n],
    ["a commit that was refused", new BadRequestError("no"), 0n],
    ["a commit with the key of another job", new ConflictError("no"), 0n],
    ["a commit for a model of nobody", new NotFoundError("no"), 0n],
    ["a commit that came too often", new RateLimitedError("no", null, {}), 0n],
    ["a 5xx, which says nothing about the money", new UnavailableError("no", null, {}), 10_000n],
    ["a hub that may have the job", new UnavailableError("no", null, { reason: "overloaded" }), 10_000n],
    ["a facilitator that is down", new UnavailableError("no", null, { reason: "facilitator_unavailable" }), 0n],
    ["too many held payments", new UnavailableError("no", null, { reason: "too_many_held_payments" }), 0n],
    ["a call that was cancelled", new DOMException("stop", "AbortError"), 10_000n],
  ])("after %s it has counted the payment accordingly", async (_, error, counted) => {
    const budget = new Budget(20_000n);
    const purchase = await signed(budget);
    purchase.failed(error);
    expect([budget.counted, purchase.amount]).toEqual([counted, counted]);
  });

  it.each([
    ["is refused", new BadRequestError("no"), 10_000n],
    ["is not found", new NotFoundError("no"), 10_000n],
    ["comes too often", new RateLimitedError("no", null, {}), 10_000n],
    ["finds that the job failed uncharged", failed(false), 0n],
  ])("after the coordinator has the job, a poll that %s says so much about the money", async (_, error, counted) => {
    const budget = new Budget(20_000n);
    const purchase = await signed(budget);
    purchase.accepted();
    purchase.failed(error);
    expect(budget.counted).toBe(counted);
  });

  it.each([
    ["429", (router: RouterServer) => router.fail(COMMIT, proceed, loseAnswer, reply(429, { error: "rate_limited" }, { "retry-after": "9999" })), 10_000n],
    ["402", (router: RouterServer) => router.fail(COMMIT, proceed, reset), 10_000n],
    [
      "422",
      (router: RouterServer) => router.fail(COMMIT, proceed, loseAnswer, reply(422, { error: "no_trusted_worker", job_id: crypto.randomUUID() })),
      10_000n,
    ],
    ["a 402 alone", () => {}, 0n],
  ] as const)("[PY8] after a payment whose answer was lost, a refusal gives nothing back: %s", async (_, arrange, counted) => {
    const router = await RouterServer.start({ gated: true, payment: () => "payment_already_used" });
    arrange(router);
    const budget = new Budget(20_000n);
    const purchase = new Purchase(budget);
    const error = await rejection(router.client({ payment: purchase.within(pay) }).run({ job_type: "LLM_INFER", prompt: "hi" }));
    purchase.failed(error);
    expect([error.idempotencyKey, budget.counted]).toEqual([expect.any(String), counted]);
  });

  it("[PY8] counts a payment of which the facilitator says only that it was used before: its money may have moved", async () => {
    const router = await RouterServer.start({ gated: true, payment: () => "payment_failed: invalid_exact_evm_nonce_already_used" });
    const budget = new Budget(20_000n);
    const purchase = new Purchase(budget);
    purchase.failed(await rejection(router.client({ payment: purchase.within(pay) }).run({ job_type: "LLM_INFER", prompt: "hi" })));
    expect(budget.counted).toBe(10_000n);
  });

  it("does not count a job that was paid from credit", async () => {
    const budget = new Budget(20_000n);
    (await signed(budget)).completed({ fromCredit: true });
    expect(budget.counted).toBe(0n);
    (await signed(budget)).completed({ fromCredit: false });
    expect(budget.counted).toBe(10_000n);
  });

  it("counts one payment of a call, also if the coordinator asks a second time", async () => {
    const budget = new Budget(10_000n);
    const purchase = new Purchase(budget);
    await purchase.within(pay)(challenge("10000"), attempt);
    await purchase.within(pay)(challenge("10000"), { ...attempt, number: 2 });
    expect(budget.counted).toBe(10_000n);
  });

  it("does not count what was not signed: the hook declined, or refused before it signed; but a hook of another kind may have paid by itself", async () => {
    const budget = new Budget(20_000n);
    await new Purchase(budget).within(() => Promise.resolve({}))(challenge("10000"), attempt);
    await expect(new Purchase(budget).within(() => Promise.reject(new PaymentLimitError("$1", 0.01)))(challenge("10000"), attempt)).rejects.toThrow(
      PaymentLimitError,
    );
    expect(budget.counted).toBe(0n);
    await expect(new Purchase(budget).within(() => Promise.reject(new Error("lost")))(challenge("10000"), attempt)).rejects.toThrow("lost");
    expect(budget.counted).toBe(10_000n);
    await new Purchase(budget).within(() => Promise.resolve(new Headers({ "X-PAYMENT": "signed" }) as never))(challenge("10000"), attempt);
    expect(budget.counted).toBe(20_000n);
  });
});
