import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { app } from "../../../src/coordinator/app.ts";
import { Health, Quote } from "../../../src/protocol/rest.ts";

import { read, refusal, rest } from "./rest.ts";
import { FakeWorker } from "./worker.ts";

const network = env.INSTANCE === "evm" ? "eip155:10143" : "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";

describe("GET /v1/health", () => {
  test("[SPEC] has exactly the four fields, with the network of this instance", async () => {
    const body = await read(await rest("/v1/health"), z.strictObject(Health.shape));
    expect(body).toMatchObject({ status: "ok", workers_online: 0, network });
    expect(Math.abs(Date.parse(body.timestamp) - Date.now())).toBeLessThan(5_000);
    expect(body.timestamp).toMatch(/\.\d{3}Z$/);
  });

  test("[SPEC] counts registered workers with a live socket", async () => {
    const online = async () => (await read(await rest("/v1/health"), Health)).workers_online;
    const worker = await FakeWorker.connect();
    expect(await online()).toBe(1);
    await worker.close();
    await expect.poll(online).toBe(0);
  });
});

describe("a flood of GET /v1/health", () => {
  test("[API1] costs the hub a few calls a second, and every answer is at most a second old", async () => {
    let asked = 0;
    const workersOnline = async () => asked++;
    const bindings = { ...env, RATE_LIMITS: "off", HUB: { getByName: () => ({ workersOnline }) } };
    const ask = async () => {
      const answer = await app.fetch(new Request("http://router.test/v1/health"), bindings);
      return (await read(answer, Health)).workers_online;
    };
    let last = -1;
    for (let n = 0; n < 500; n++) {
      const answer = await ask();
      expect(answer).toBeGreaterThanOrEqual(last);
      last = answer;
    }
    // As many as the time of the test allows, and far from all.
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThan(400);
  });
});

describe("GET /v1/quote", () => {
  test.each([
    ["LLM_INFER", "FAST", "FAST", "$0.010"],
    ["LLM_INFER", "CHEAP", "CHEAP", "$0.005"],
    ["LLM_INFER", "AUTO", "FAST", "$0.010"],
    ["LLM_INFER", "", "FAST", "$0.010"],
    ["LLM_INFER", null, "FAST", "$0.010"],
    ["TASK", "FAST", "FAST", "$0.003"],
    ["TASK", "CHEAP", "CHEAP", "$0.001"],
    ["TASK", "AUTO", "CHEAP", "$0.001"],
    ["TASK", "", "CHEAP", "$0.001"],
    ["TASK", null, "CHEAP", "$0.001"],
  ])("[SPEC, API3] %s under %o resolves to %s for %s", async (jobType, policy, resolved, price) => {
    const query = new URLSearchParams({ job_type: jobType, ...(policy !== null && { policy }) });
    const body = await read(await rest(`/v1/quote?${query}`), z.strictObject(Quote.shape));
    const endpoint = `/v1/jobs/commit/${resolved.toLowerCase()}`;
    expect(body).toEqual({ price, endpoint, policy_resolved: resolved, network, expires_at: null });
  });

  test.each(["", "?job_type=", "?job_type=task", "?job_type=VIDEO", "?policy=FAST"])("[SPEC] /v1/quote%s is 400 naming job_type", async (query) => {
    expect(await refusal(await rest(`/v1/quote${query}`), 400)).toContain("job_type");
  });

  test.each(["fast", "BEST", "null", " FAST"])("[API3] policy %o is 400 naming policy", async (policy) => {
    expect(await refusal(await rest(`/v1/quote?${new URLSearchParams({ job_type: "TASK", policy })}`), 400)).toContain("policy");
  });

  test("[JB10] with a model it says how many workers offer it: 0 for that of nobody, all that take LLM jobs for auto, and none without one", async () => {
    const worker = await FakeWorker.connect();
    worker.send({ type: "register", provider_pubkey: worker.key.publicKey, provider_type: "DESKTOP", capabilities: ["LLM_INFER"], models: ["Org/Ant:7b"] });
    const quote = async (model: string) => read(await rest(`/v1/quote?${new URLSearchParams({ job_type: "LLM_INFER", model })}`), z.strictObject(Quote.shape));
    await expect.poll(() => quote("org/ANT:7b")).toMatchObject({ price: "$0.010", model: "org/ANT:7b", workers: 1 });
    expect(await quote("bee")).toMatchObject({ model: "bee", workers: 0 });
    expect(await quote("AUTO")).toMatchObject({ model: "AUTO", workers: 1 });
    expect(await quote("")).not.toHaveProperty("workers");
    await worker.close();
  });

  test.each([
    ["LLM_INFER", "a b"],
    ["LLM_INFER", "<b>"],
    ["LLM_INFER", "a".repeat(201)],
    ["TASK", "ant"],
  ])("[JB10] of %s with the model %o is 400 naming model", async (job_type, model) => {
    expect(await refusal(await rest(`/v1/quote?${new URLSearchParams({ job_type, model })}`), 400)).toContain("model");
  });
});
