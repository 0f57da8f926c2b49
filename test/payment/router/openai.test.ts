// OpenAI's own client, which pays because x402's fetch is given to it [API9].
import OpenAI from "openai";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { challengeOf } from "../pay/challenge.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, PRICE } from "../support/bench.ts";
import { CLIENTS } from "../support/clients.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

const MESSAGES = [{ role: "user" as const, content: "Say hello." }];

describe.each(["evm", "svm"] as const)("OpenAI's client on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    return () => giveBack(bench);
  });
  beforeEach(async () => {
    await bench.leave();
    await bench.join();
  });

  const client = () => new OpenAI({ baseURL: `${bench.url}/v1`, apiKey: "none", fetch: CLIENTS["@x402/fetch 2.27"]?.(lab, bench.payer()) });

  it("[API9] pays FAST's price for a chat, and gets the settlement with the answer", async () => {
    const gained = await bench.earning(async () => {
      const { data, response } = await client().chat.completions.create({ model: "auto", messages: MESSAGES }).withResponse();
      expect(data.choices[0]?.message.content).toBe("an answer");
      expect(response.headers.get("payment-response")).not.toBeNull();
      const { compute_router } = data as unknown as { compute_router: { job_id: string; receipt: { payment_ref: string } } };
      expect(compute_router.receipt.payment_ref).toMatch(/./);
      expect(response.headers.get("x-job-id")).toBe(compute_router.job_id);
    });
    expect(gained).toBe(PRICE.fast);
  });

  it("[API9] pays for a stream in the same way", async () => {
    const gained = await bench.earning(async () => {
      let text = "";
      for await (const chunk of await client().chat.completions.create({ model: "auto", messages: MESSAGES, stream: true })) {
        text += chunk.choices[0]?.delta.content ?? "";
      }
      expect(text).toBe("an answer");
    });
    expect(gained).toBe(PRICE.fast);
  });

  it("[API9] [PY6] the same payment with the same request is the same job, although the request names no user; with another request it is refused", async () => {
    const ask = (messages: object[], headers: Record<string, string> = {}) =>
      fetch(`${bench.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ messages }),
      });
    const unpaid = await ask(MESSAGES);
    const required = JSON.parse(Buffer.from(unpaid.headers.get("payment-required") ?? "", "base64").toString("utf8")) as { resource: { url: string } };
    expect(required.resource.url).toBe(`${bench.url}/v1/chat/completions`);
    const paid = await lab.pay(await challengeOf(unpaid), { who: bench.payer() });
    const gained = await bench.earning(async () => {
      const [first, second] = [await ask(MESSAGES, paid.headers()), await ask(MESSAGES, paid.headers())];
      expect([first.status, second.status]).toEqual([200, 200]);
      expect(second.headers.get("x-job-id")).toBe(first.headers.get("x-job-id"));
      expect((await ask([{ role: "user", content: "Another." }], paid.headers())).status).toBe(402);
    });
    expect(gained).toBe(PRICE.fast);
  });

  // What the client makes of an answer has nothing to do with the chain.
  if (side === "svm") return;
  it("[API9] a job that fails is one job, paid once: the client does not buy again by itself", async () => {
    await bench.leave();
    const worker = await bench.join(1, false);
    const gained = await bench.earning(async () => {
      const failed = expect(client().chat.completions.create({ model: "auto", messages: MESSAGES })).rejects.toMatchObject({
        status: 503,
        code: "worker_error",
      });
      const { job_id, attempt } = await worker.frame("job_assign");
      worker.send({ type: "job_failed", job_id, attempt, error: "worker_error", retryable: false });
      await failed;
    });
    expect(gained).toBe(PRICE.fast);
    expect(worker.frames.filter(({ type }) => type === "job_assign")).toHaveLength(1);
  });
});
