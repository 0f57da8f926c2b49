import { beforeAll, describe, expect, test } from "vitest";
import { ISO } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

describe("health", () => {
  test("[SPEC] GET /v1/health is the Health object and nothing else", async () => {
    const answer = await evm.api.get("/v1/health");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    expect(answer.body).toEqual({ status: "ok", workers_online: 0, network: "eip155:10143", timestamp: expect.stringMatching(ISO) });
    expect(Math.abs(Date.parse(String(answer.body.timestamp)) - Date.now())).toBeLessThan(5_000);
  });

  test("[SPEC] a query changes nothing", async () => {
    expect((await evm.api.get("/v1/health?x=1")).status).toBe(200);
  });
});

describe("quote", () => {
  test.each([
    ["LLM_INFER", "FAST", "$0.010", "FAST"],
    ["LLM_INFER", "CHEAP", "$0.005", "CHEAP"],
    ["TASK", "FAST", "$0.003", "FAST"],
    ["TASK", "CHEAP", "$0.001", "CHEAP"],
    ["LLM_INFER", "AUTO", "$0.010", "FAST"],
    ["TASK", "AUTO", "$0.001", "CHEAP"],
    ["LLM_INFER", null, "$0.010", "FAST"],
    ["TASK", null, "$0.001", "CHEAP"],
    ["LLM_INFER", "", "$0.010", "FAST"],
    ["TASK", "", "$0.001", "CHEAP"],
  ])("[SPEC, API3] %s with policy %s costs %s as %s", async (type, policy, price, resolved) => {
    const answer = await evm.api.get(`/v1/quote?job_type=${type}${policy === null ? "" : `&policy=${policy}`}`);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      price,
      endpoint: `/v1/jobs/commit/${resolved.toLowerCase()}`,
      policy_resolved: resolved,
      network: "eip155:10143",
      expires_at: null,
    });
  });

  test.each(["", "?job_type=", "?job_type=llm_infer", "?job_type=OTHER", "?policy=FAST", "?job_type=TASK%20", "?job_type=%00"])(
    "[SPEC] an invalid or missing job_type is 400: /v1/quote%s",
    async (query) => {
      const answer = await evm.api.get(`/v1/quote${query}`);
      expect(answer.status).toBe(400);
      expect(answer.body.error).toContain("job_type");
    },
  );

  test.each(["fast", "BEST", "AUTO%20", "%20FAST", "null", "FAST,CHEAP"])("[API3] an invalid policy is 400: %s", async (policy) => {
    const answer = await evm.api.get(`/v1/quote?job_type=TASK&policy=${policy}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toContain("policy");
  });
});
