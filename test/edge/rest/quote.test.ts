import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import * as z from "zod";
import { app } from "../../../src/coordinator/app.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { Health, Quote } from "../../../src/protocol/rest.ts";

import { ORIGIN, read, refusal, rest } from "./rest.ts";
import { FakeWorker } from "./worker.ts";

describe("GET /v1/health", () => {
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

test.each([
  ["/v1/models", 1],
  ["/v1/quote?job_type=LLM_INFER&model=ant", 1],
  ["/v1/health", TUNING.healthAsks],
])("[API1, JB10] 300 times %s at once, before the hub has answered, are so many calls of the hub in one second: %d", async (path, most) => {
  let calls = 0;
  const answer = async <T>(value: T): Promise<T> => {
    calls++;
    await scheduler.wait(50);
    return value;
  };
  const hub = { workersOnline: () => answer(7), models: () => answer({ object: "list", data: [], workers_online: 7 }) };
  const bindings = { ...env, RATE_LIMITS: "off", HUB: { getByName: () => hub } };
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const answers = await Promise.all(Array.from({ length: 300 }, async () => app.fetch(new Request(new URL(path, ORIGIN)), bindings)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(calls).toBe(most);
});

describe("GET /v1/quote", () => {
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
