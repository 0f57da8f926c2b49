import { describe, expect, it } from "vitest";
import { ALREADY_USED } from "../../../src/protocol/pricing.ts";
import { keptNothing, mayBeAccepted } from "../../../src/sdk/commit.ts";
import { inDollars } from "../../../src/sdk/payment.ts";
import {
  type CommitOptions,
  ComputeRouter,
  type PaymentAttempt,
  type PaymentChallenge,
  type PaymentHook,
  PaymentLimitError,
  PaymentRequiredError,
  ProtocolError,
} from "../../../src/sdk/index.ts";
import { loseAnswer, rejection, reply, reset } from "./support/faults.ts";
import { type Fault, NETWORK, PAY_TO, RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

/** A hook that pays "paid-1", "paid-2", … and remembers what it was asked. */
function payer(): { hook: PaymentHook; asked: { required: PaymentChallenge; attempt: PaymentAttempt }[] } {
  const asked: { required: PaymentChallenge; attempt: PaymentAttempt }[] = [];
  const hook: PaymentHook = async (required, attempt) => {
    asked.push({ required, attempt });
    return { "X-PAYMENT": `paid-${asked.length}` };
  };
  return { hook, asked };
}

describe("payment", () => {
  it("[PY4] without a hook a 402 is a PaymentRequiredError with the payment requirements", async () => {
    const router = await RouterServer.start({ gated: true });
    const error = await rejection(router.client().run(CLASSIFY));
    expect(error).toBeInstanceOf(PaymentRequiredError);
    expect(error.message).toBe(`the router answered 402: Payment required ($0.001 on ${NETWORK})`);
    expect(error).toMatchObject({ code: "payment_required", status: 402, idempotencyKey: null });
    expect(error.accepts).toMatchObject([{ scheme: "exact", price: "$0.001", network: NETWORK, payTo: PAY_TO, asset: PAY_TO }]);
    expect(router.to("/v1/jobs/commit")).toHaveLength(1);
  });

  it("[SPEC] the hook gets body and header, and its headers are sent with the same commit and the same key", async () => {
    const router = await RouterServer.start({ gated: true });
    const { hook, asked } = payer();
    const result = await router.client({ payment: hook }).run(CLASSIFY, { policy: "FAST" });
    expect(result).toMatchObject({ verified: true, price: "$0.010" });
    expect(router.charged).toEqual(["paid-1"]);
    expect(asked).toHaveLength(1);
    expect(asked[0]?.required).toMatchObject({ error: "Payment required", accepts: [{ amount: "10000" }], x402Version: 2 });
    expect(asked[0]?.attempt.number).toBe(1);
    expect(JSON.parse(atob(asked[0]?.attempt.header ?? ""))).toMatchObject({ x402Version: 2, accepts: [{ amount: "10000" }] });
    const [first, second] = router.to("/v1/jobs/commit");
    expect(first?.headers["x-payment"]).toBeUndefined();
    expect(second?.headers["idempotency-key"]).toBe(first?.headers["idempotency-key"]);
    expect(second?.body).toBe(first?.body);
  });

  it("a hook cannot replace the SDK's own headers", async () => {
    const router = await RouterServer.start({ gated: true });
    const payment: PaymentHook = async () => ({ "x-payment": "paid", "Idempotency-Key": "theirs", "content-type": "text/plain" });
    await router.client({ payment }).run(CLASSIFY, { idempotencyKey: "mine" });
    expect(router.to("/v1/jobs/commit")[1]?.headers).toMatchObject({ "idempotency-key": "mine", "content-type": "application/json", "x-payment": "paid" });
  });

  it("[PY6] after a lost answer the same payment is sent again: one job, one charge, one call of the hook", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail("POST /v1/jobs/commit", (response, _request, proceed) => proceed(response), loseAnswer, reset);
    const { hook, asked } = payer();
    expect(await router.client({ payment: hook }).run(CLASSIFY)).toMatchObject({ verified: true });
    expect(router.to("/v1/jobs/commit").map(({ headers }) => headers["x-payment"])).toEqual([undefined, "paid-1", "paid-1", "paid-1"]);
    expect(router.charged).toEqual(["paid-1"]);
    expect(router.jobs.size).toBe(1);
    expect(asked).toHaveLength(1);
  });

  it("after a refused payment the hook is asked for one more payment, not for two", async () => {
    const router = await RouterServer.start({ gated: true, payment: (header) => (header === "paid-2" ? undefined : "payment_already_used") });
    const { hook, asked } = payer();
    expect(await router.client({ payment: hook }).run(CLASSIFY)).toMatchObject({ verified: true });
    expect(asked.map(({ required, attempt }) => [attempt.number, required.error])).toEqual([
      [1, "Payment required"],
      [2, "payment_already_used"],
    ]);

    router.rules.payment = () => "insufficient_funds";
    const second = payer();
    const error = await rejection(router.client({ payment: second.hook }).run(CLASSIFY));
    expect(error).toBeInstanceOf(PaymentRequiredError);
    expect(error).toMatchObject({ reason: "insufficient_funds" });
    expect(second.asked).toHaveLength(2);
    expect(router.charged).toEqual(["paid-2"]);
  });

  it("[PY8] no second payment while the outcome of the first is unknown", async () => {
    const router = await RouterServer.start({ gated: true, payment: () => "payment_already_used" });
    router.fail("POST /v1/jobs/commit", (response, _request, proceed) => proceed(response), reset);
    const { hook, asked } = payer();
    const error = await rejection(router.client({ payment: hook }).run(CLASSIFY, { idempotencyKey: "mine" }));
    expect(error).toMatchObject({ code: "payment_required", reason: "payment_already_used", idempotencyKey: "mine" });
    expect(asked).toHaveLength(1);
  });

  it.each(ALREADY_USED)(
    "[PY8] the facilitator answers %s, so the money may have moved: the hook is not asked again, and the error is no refusal",
    async (word) => {
      const router = await RouterServer.start({ gated: true, payment: () => `payment_failed: ${word}` });
      const { hook, asked } = payer();
      const error = await rejection(router.client({ payment: hook }).run(CLASSIFY, { idempotencyKey: "mine" }));
      expect(error).toMatchObject({ code: "payment_required", reason: `payment_failed: ${word}`, idempotencyKey: "mine" });
      expect([asked.length, mayBeAccepted(error), keptNothing(error)]).toEqual([1, true, false]);
    },
  );

  it("[PY8] another reason of the facilitator is a refusal, and the hook is asked for one more payment", async () => {
    const router = await RouterServer.start({ gated: true, payment: () => "payment_failed: insufficient_funds" });
    const { hook, asked } = payer();
    expect(mayBeAccepted(await rejection(router.client({ payment: hook }).run(CLASSIFY)))).toBe(false);
    expect(asked).toHaveLength(2);
  });

  it("a lost request without a payment does not stop the hook from paying", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail("POST /v1/jobs/commit", loseAnswer);
    const { hook } = payer();
    expect(await router.client({ payment: hook }).run(CLASSIFY)).toMatchObject({ verified: true });
  });

  it("[PY5] after a 503 facilitator_unavailable the same payment is tried again", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail(
      "POST /v1/jobs/commit",
      (response, _request, proceed) => proceed(response),
      reply(503, { error: "facilitator_unavailable" }, { "retry-after": "0" }),
    );
    const { hook, asked } = payer();
    expect(await router.client({ payment: hook }).run(CLASSIFY)).toMatchObject({ verified: true });
    expect(asked).toHaveLength(1);
  });

  it("[PY5] a 503 too_many_held_payments kept nothing: it is a refusal, and no lost answer", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail(
      "POST /v1/jobs/commit",
      (response, _request, proceed) => proceed(response),
      reply(503, { error: "too_many_held_payments" }, { "retry-after": "0" }),
    );
    const { hook } = payer();
    const error = await rejection(router.client({ payment: hook, maxRetries: 0 }).run(CLASSIFY));
    expect([error, mayBeAccepted(error), keptNothing(error)]).toEqual([expect.objectContaining({ reason: "too_many_held_payments" }), false, true]);
  });

  it("[LM2] a map repeats a paid commit that comes too often with the same payment", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail("POST /v1/jobs/commit", (response, _request, proceed) => proceed(response), reply(429, { error: "rate_limited" }, { "retry-after": "0" }));
    const { hook, asked } = payer();
    expect(await router.client({ payment: hook }).map([CLASSIFY])).toHaveLength(1);
    expect(asked).toHaveLength(1);
  });

  it("an empty object declines to pay, and an error of the hook is thrown", async () => {
    const router = await RouterServer.start({ gated: true });
    expect(await rejection(router.client({ payment: async () => ({}) }).run(CLASSIFY))).toMatchObject({ code: "payment_required", idempotencyKey: null });
    const mine = new Error("wallet locked");
    expect(
      await rejection(
        router
          .client({
            payment: async () => {
              throw mine;
            },
          })
          .run(CLASSIFY),
      ),
    ).toBe(mine);
  });

  it.each([null, "paid", { "x-payment": 1 }, { "x-payment": "a\nb" }])("a hook that resolves to %j is an InvalidOptionError", async (value) => {
    const router = await RouterServer.start({ gated: true });
    expect(await rejection(router.client({ payment: async () => value as never }).run(CLASSIFY))).toMatchObject({ code: "invalid_option", option: "payment" });
    expect(router.charged).toEqual([]);
  });

  it.each([
    ["Headers", new Headers({ "x-payment": "signed" })],
    ["a Map", new Map([["x-payment", "signed"]])],
  ])("a hook that resolves to %s, which looks empty, has not declined: an InvalidOptionError, because it may have paid", async (_, value) => {
    const router = await RouterServer.start({ gated: true });
    const error = await rejection(router.client({ payment: async () => value as never }).run(CLASSIFY));
    expect(error).toMatchObject({ code: "invalid_option", option: "payment", idempotencyKey: expect.any(String) });
  });

  it.each<[string, (client: ComputeRouter, options: CommitOptions) => Promise<unknown>]>([
    ["run", (client, options) => client.run(CLASSIFY, options)],
    ["submit", (client, options) => client.submit(CLASSIFY, options)],
    ["stream", (client, options) => client.stream(CLASSIFY, options).result],
  ])("a hook that hangs is ended by the timeout of %s and by its signal, and its own signal is aborted", async (_call, start) => {
    const abort = new AbortController();
    let onAsked = (): void => {};
    let signal: AbortSignal | undefined;
    const client = new ComputeRouter({
      // Without a network, the hook is asked long before the timeout, however busy the machine is.
      fetch: async (input) =>
        new Request(input).url.includes("/v1/quote")
          ? Response.json({ price: "$0.001", network: NETWORK, policy_resolved: "CHEAP", endpoint: "/v1/jobs/commit/cheap", expires_at: null })
          : Response.json({ error: "pay", accepts: [{ scheme: "exact", price: "$0.001", network: NETWORK, payTo: PAY_TO }] }, { status: 402 }),
      payment: (_required, attempt) => {
        signal = attempt.signal;
        onAsked();
        return new Promise(() => {});
      },
    });
    const error = await rejection(start(client, { timeout: 100, idempotencyKey: "mine" }));
    expect(error).toMatchObject({ code: "connection_failed", reason: "timeout", idempotencyKey: "mine" });
    expect(signal?.aborted).toBe(true);
    onAsked = () => abort.abort("enough");
    expect(await rejection(start(client, { signal: abort.signal }))).toBe("enough");
    expect(signal?.aborted).toBe(true);
  });

  it("a 402 without payment requirements is a ProtocolError", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", reply(402, {}));
    const { hook, asked } = payer();
    expect(await rejection(router.client({ payment: hook }).run(CLASSIFY))).toBeInstanceOf(ProtocolError);
    expect(asked).toEqual([]);
  });

  it("[SPEC] requirements with only the fields of the specification are enough", async () => {
    const router = await RouterServer.start({ gated: true });
    router.fail("POST /v1/jobs/commit", reply(402, { error: "pay", accepts: [{ scheme: "exact", price: "$0.001", network: "solana:x", payTo: "p" }] }));
    const { hook, asked } = payer();
    await router.client({ payment: hook, maxPrice: "$0.001" }).run(CLASSIFY);
    expect(asked[0]).toMatchObject({ attempt: { header: null } });
  });
});

describe("maxPrice", () => {
  it("refuses a quote above maxPrice before anything is committed", async () => {
    const router = await RouterServer.start({ gated: true });
    const { hook, asked } = payer();
    const error = await rejection(router.client({ payment: hook, maxPrice: 0.0009 }).run(CLASSIFY));
    expect(error).toBeInstanceOf(PaymentLimitError);
    expect(error).toMatchObject({ code: "payment_limit", price: "$0.001", maxPrice: 0.0009 });
    expect(router.to("/v1/jobs/commit")).toEqual([]);
    expect(asked).toEqual([]);
  });

  it("[SPEC] refuses a charge above the quote: FAST TASK is quoted $0.003 and charged $0.010", async () => {
    const router = await RouterServer.start({ gated: true });
    const { hook, asked } = payer();
    expect(await rejection(router.client({ payment: hook, maxPrice: "$0.009" }).run(CLASSIFY, { policy: "FAST" }))).toMatchObject({ price: "$0.010" });
    expect(asked).toEqual([]);
    expect(await router.client({ payment: hook, maxPrice: "0.01" }).run(CLASSIFY, { policy: "FAST" })).toMatchObject({ price: "$0.010" });
  });

  const fine = { scheme: "exact", price: "$0.001", network: NETWORK, payTo: PAY_TO };
  const header = (...amounts: unknown[]): Record<string, string> => ({
    "payment-required": btoa(JSON.stringify({ x402Version: 2, accepts: amounts.map((amount) => ({ amount })) })),
  });
  it.each([
    ["an amount that is not the price", [{ ...fine, amount: "1000000" }], {}],
    ["a maxAmountRequired that is not the price", [{ ...fine, maxAmountRequired: "1000000" }], {}],
    ["an amount that is no number", [{ ...fine, amount: "-1" }], {}],
    ["a price that is no price", [{ ...fine, price: "free" }], {}],
    ["a second, dearer offer", [fine, { ...fine, price: "$1.000" }], {}],
    ["a dearer offer in the header", [fine], header("1000", "1000000")],
    ["a header without an amount", [fine], header(undefined)],
    ["an unreadable header", [fine], { "payment-required": "%%%" }],
    ["a header that is not JSON", [fine], { "payment-required": "aGk=" }],
  ])("refuses %s", async (_title, accepts, headers) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", reply(402, { error: "pay", accepts }, headers));
    const { hook, asked } = payer();
    expect(await rejection(router.client({ payment: hook, maxPrice: 0.01 }).run(CLASSIFY))).toBeInstanceOf(PaymentLimitError);
    expect(asked).toEqual([]);
  });
});

describe("what became of the money", () => {
  const ID = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
  const CREDIT = { amount: "1000", asset: "eip155:10143/0x01", balance: "9000" };

  /** A router that answers every job with this result and this settlement; `look` replaces its answers to polls. */
  function routerWith(
    result: object,
    settlement: object | null,
    status: "completed" | "failed" = "failed",
    look?: () => Response | Promise<Response>,
  ): ComputeRouter {
    const job = { id: ID, status, result, receipt: null, created_at: "2026-01-01T00:00:00.000Z", completed_at: null };
    const headers: Record<string, string> = settlement === null ? {} : { "payment-response": btoa(JSON.stringify(settlement)) };
    const answer = async (url: string): Promise<Response> => {
      if (url.includes("/v1/quote"))
        return Response.json({ price: "$0.001", network: "eip155:10143", policy_resolved: "CHEAP", endpoint: "/v1/jobs/commit/cheap", expires_at: null });
      if (url.includes("/commit/")) return Response.json({ job_id: ID }, { status: 201, headers });
      if (!url.endsWith("/events")) return look?.() ?? Response.json(job, { headers });
      return new Response(`event: done\nid: 1\ndata: ${JSON.stringify(job)}\n\n`, { headers: { "content-type": "text/event-stream" } });
    };
    return new ComputeRouter({ fetch: async (input) => answer(new Request(input).url) });
  }

  const JOB = { job_type: "TASK", task_type: "classify", input: "good" } as const;

  it.each([
    ["worker_unavailable", { success: true, extensions: { credit: CREDIT } }, { charged: true, credit: CREDIT }],
    ["no_eligible_worker", { success: true, extensions: { credit: CREDIT } }, { charged: true, credit: CREDIT }],
    ["no_eligible_worker", null, { charged: false, credit: null }],
    ["worker_lost", { success: true }, { charged: true, credit: null }],
    ["payment_failed", { success: false, errorReason: "insufficient_funds" }, { charged: false, credit: null }],
    ["payment_failed", null, { charged: null, credit: null }],
    ["worker_error", { success: true, extensions: { credit: { ...CREDIT, balance: -1 } } }, { charged: true, credit: null }],
  ])("[PY9] a failed job (%s) says by its PAYMENT-RESPONSE %j whether it was charged, from run and from stream", async (cause, settlement, money) => {
    const router = routerWith({ error: cause }, settlement);
    expect(await rejection(router.run(JOB))).toMatchObject({ reason: cause, ...money });
    const last = async (): Promise<void> => {
      for await (const _ of router.stream(JOB));
    };
    expect(await rejection(last())).toMatchObject({ reason: cause, ...money });
  });

  it.each<[string, () => Response | Promise<Response>]>([
    ["a 429", () => Response.json({ error: "rate_limited" }, { status: 429 })],
    ["a 503", () => Response.json({ error: "overloaded" }, { status: 503 })],
    ["a lost answer", () => Promise.reject(new TypeError("fetch failed"))],
    ["no answer in time", () => new Promise(() => {})],
  ])("[PY9] a stream does not say that nothing was charged if the payment of its failed job cannot be read: %s", async (_why, look) => {
    const router = routerWith({ error: "worker_lost" }, null, "failed", look);
    for (const job of [JOB, ID]) {
      expect(await rejection(router.stream(job, { timeout: 3_000 }).result)).toMatchObject({ reason: "worker_lost", charged: null, credit: null });
    }
  });

  it("[PY9] money that had moved with the 201 stays charged, and whether it is a credit is open until the router says so", async () => {
    const router = await RouterServer.start({ gated: true, statuses: [], work: () => ({ error: "worker_lost" }) });
    const pass: Fault = (response, _request, proceed) => proceed(response);
    const says =
      (settlement: object): Fault =>
      (response, _request, proceed) =>
        proceed(response.setHeader("payment-response", btoa(JSON.stringify(settlement))));
    router.fail("POST /v1/jobs/commit", pass, says({ success: true, extensions: { credit: CREDIT } }));
    router.fail("GET /v1/jobs/[^/]+/events", (response) => {
      const [job] = [...router.jobs.values()];
      response.writeHead(200, { "content-type": "text/event-stream" }).end(`id: 1\nevent: done\ndata: ${JSON.stringify(job?.end)}\n\n`);
    });
    router.fail("GET /v1/jobs", reply(503, { error: "overloaded" }), says({ success: true, extensions: { credit: CREDIT } }));
    const client = router.client({ payment: payer().hook });
    const error = await rejection(client.stream(JOB).result);
    expect(error).toMatchObject({ reason: "worker_lost", charged: true, credit: null });
    expect(client.usage()).toMatchObject({ failed: 1, spent: "$0.000", unclear: 1 });
    expect(await rejection(client.waitFor(error.jobId))).toMatchObject({ charged: true, credit: CREDIT });
    expect(client.usage()).toMatchObject({ failed: 1, spent: "$0.000", unclear: 0 });
  });

  it("[PY9] a result says that it was paid from a balance, and what is left of it", async () => {
    const router = routerWith({ sentiment: "positive", confidence: 1 }, { success: true, extensions: { credit: CREDIT } }, "completed");
    expect(await router.run(JOB)).toMatchObject({ price: "$0.001", credit: CREDIT });
    expect(await routerWith({ sentiment: "positive", confidence: 1 }, null, "completed").run(JOB)).toMatchObject({ credit: null });
  });

  it("amounts are shown in dollars", () => {
    expect(["0", "1000", "10000", "1234567", "1000000", "12"].map(inDollars)).toEqual(["$0.000", "$0.001", "$0.010", "$1.234567", "$1.000", "$0.000012"]);
  });
});
