import { describe, expect, it } from "vitest";
import { UsageSum } from "../../../src/sdk/local-jobs.ts";
import { rejection } from "./support/faults.ts";
import { type Fault, RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const PROMPT = { job_type: "LLM_INFER", prompt: "Say hello." } as const;
const PAYMENT = { payment: async () => ({ "X-PAYMENT": "p" }) };
const CREDIT = { amount: "10000", asset: "eip155:10143/0x1", balance: "30000" };
const NOTHING = { completed: 0, failed: 0, promptTokens: 0, completionTokens: 0, spent: "$0.000", unclear: 0 };

/** Answers as the router does, with this settlement. */
const settled =
  (settlement: object): Fault =>
  (response, _request, proceed) =>
    proceed(response.setHeader("payment-response", Buffer.from(JSON.stringify(settlement)).toString("base64")));

describe("usage", () => {
  it("sums jobs and tokens of run, chat, map, stream and waitFor, each job once; a free router costs nothing", async () => {
    const router = await RouterServer.start({ statuses: [] });
    const client = router.client();
    expect(client.usage()).toEqual(NOTHING);
    const { jobId } = await client.run(PROMPT);
    await client.waitFor(jobId ?? "");
    await client.chat("hi");
    await client.map([CLASSIFY, PROMPT]);
    for await (const event of client.stream(PROMPT)) expect(event.type).not.toBe("reset");
    expect(client.usage()).toEqual({ ...NOTHING, completed: 5, promptTokens: 4, completionTokens: 8 });
    expect(router.client().usage()).toEqual(NOTHING);
  });

  it("does not believe numbers of tokens that cannot be", async () => {
    for (const tokens of [-1, 1.5, 2 ** 40, "5", null]) {
      const router = await RouterServer.start({
        statuses: [],
        work: () => ({ output: { output: "x", usage: { prompt_tokens: tokens, completion_tokens: 7 } } }),
      });
      const client = router.client();
      await client.run(PROMPT);
      expect(client.usage()).toEqual({ ...NOTHING, completed: 1, completionTokens: 7 });
    }
  });

  it("[PY9] sums what was paid, by the router's word: a paid job, one that was paid from the balance", async () => {
    const router = await RouterServer.start({ gated: true, statuses: [] });
    const client = router.client(PAYMENT);
    router.fail("GET /v1/jobs", settled({ success: true }), settled({ success: true, extensions: { credit: CREDIT } }));
    await client.run(PROMPT);
    expect(client.usage()).toEqual({ ...NOTHING, completed: 1, promptTokens: 1, completionTokens: 2, spent: "$0.010" });
    await client.run(CLASSIFY);
    expect(client.usage()).toMatchObject({ completed: 2, spent: "$0.011", unclear: 0 });
  });

  it("[API5, PY6] a job that is run again with its key and its payment was paid once, also if the second run does not see its end", async () => {
    const router = await RouterServer.start({ gated: true, statuses: [] });
    const client = router.client(PAYMENT);
    const again = { idempotencyKey: "k" };
    router.fail("GET /v1/jobs", settled({ success: true }), settled({ success: true }));
    const { jobId } = await client.run(PROMPT, again);
    expect(await client.run(PROMPT, again)).toMatchObject({ jobId });
    expect(client.usage()).toMatchObject({ completed: 1, spent: "$0.010", unclear: 0 });
    await client.submit(PROMPT, again);
    expect(client.usage()).toMatchObject({ completed: 1, spent: "$0.010", unclear: 0 });
  });

  it("[PY9] a failed job counts if it was charged, not if its money is a credit, and as unclear if nobody knows", async () => {
    const router = await RouterServer.start({ gated: true, statuses: [], work: () => ({ error: "payment_failed" }) });
    const client = router.client(PAYMENT);
    router.fail("GET /v1/jobs", settled({ success: true }), settled({ success: true, extensions: { credit: CREDIT } }), settled({ success: false }));
    for (let n = 0; n < 3; n++) await rejection(client.run(PROMPT));
    expect(client.usage()).toEqual({ ...NOTHING, failed: 3, spent: "$0.010" });
    await rejection(client.run(PROMPT));
    expect(client.usage()).toEqual({ ...NOTHING, failed: 4, spent: "$0.010", unclear: 1 });
  });

  it("[PY7] counts a job whose end `get` sees, with its payment, and not again at a later look", async () => {
    const router = await RouterServer.start({ gated: true, statuses: ["pending"] });
    const client = router.client(PAYMENT);
    const { jobId } = await client.submit(PROMPT);
    expect(await client.get(jobId)).toMatchObject({ status: "pending" });
    expect(client.usage()).toEqual({ ...NOTHING, unclear: 1 });
    router.fail("GET /v1/jobs", ...Array.from({ length: 3 }, () => settled({ success: true })));
    const once = { ...NOTHING, completed: 1, promptTokens: 1, completionTokens: 2, spent: "$0.010" };
    for (const look of [() => client.get(jobId), () => client.waitFor(jobId), () => client.get(jobId)]) {
      await look();
      expect(client.usage()).toEqual(once);
    }
  });

  it("a client that never looks at its paid jobs remembers only the newest; the others stay unclear", () => {
    const sum = new UsageSum();
    const ids = Array.from({ length: 10_001 }, (_, index) => `job ${index}`);
    for (const id of ids) sum.paid(id, "$0.010");
    expect(sum.now).toEqual({ ...NOTHING, unclear: 10_001 });
    const ended = { status: "completed", result: null, receipt: null, created_at: "", completed_at: "" } as const;
    const end = (index: number): void => sum.add({ ...ended, id: ids[index] ?? "" }, { charged: true, credit: null });
    end(0);
    expect(sum.now).toMatchObject({ completed: 1, spent: "$0.000", unclear: 10_001 });
    end(1);
    expect(sum.now).toMatchObject({ completed: 2, spent: "$0.010", unclear: 10_000 });
  });

  it("[PY7] the payment of a job becomes clear with its end, whoever saw the commit: submit and waitFor, stream, cancel", async () => {
    const router = await RouterServer.start({ gated: true, statuses: ["pending"] });
    const client = router.client(PAYMENT);
    const { jobId } = await client.submit(PROMPT);
    expect(client.usage()).toEqual({ ...NOTHING, unclear: 1 });
    router.fail("GET /v1/jobs", settled({ success: true }), settled({ success: true }));
    await client.waitFor(jobId);
    expect(client.usage()).toMatchObject({ completed: 1, spent: "$0.010", unclear: 0 });

    router.fail("GET /v1/jobs/[^/]+/events", (response, request) => {
      const end = router.jobs.get(request.path.split("/")[3] ?? "")?.end ?? {};
      response.writeHead(200, { "content-type": "text/event-stream" }).end(`id: 1\nevent: done\ndata: ${JSON.stringify(end)}\n\n`);
    });
    router.fail("GET /v1/jobs/[0-9a-f-]+$", settled({ success: true }));
    for await (const event of client.stream(PROMPT)) expect(event.type).not.toBe("reset");
    expect(client.usage()).toMatchObject({ completed: 2, spent: "$0.020", unclear: 0 });

    const handle = await client.submit(PROMPT);
    router.fail("GET /v1/jobs", settled({ success: true, extensions: { credit: CREDIT } }));
    await client.cancel(handle);
    expect(client.usage()).toMatchObject({ completed: 2, failed: 1, spent: "$0.020", unclear: 0 });
  });
});
