import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import main from "../../../src/coordinator/main.ts";
import { Health } from "../../../src/protocol/rest.ts";
import { ORIGIN, TASK, failingDb, failingHub, post, read, refusal, rest } from "./rest.ts";

const EXPOSED = [
  "x-should-retry",
  "payment-required",
  "payment-response",
  "x-payment-response",
  "preference-applied",
  "x-cancel-token",
  "x-job-id",
  "retry-after",
  "x-request-id",
];
const ALLOWED = [
  "authorization",
  "content-type",
  "x-payment",
  "payment-signature",
  "idempotency-key",
  "prefer",
  "x-user-token",
  "x-cancel-token",
  "last-event-id",
  "*",
];
const ID = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);

afterEach(() => {
  expect(logged.mock.calls.join("\n")).not.toMatch(/secret/);
  logged.mockClear();
});

const list = (header: string | null) => header?.split(", ");

const answers: [name: string, status: number, ask: () => Promise<Response>][] = [
  ["health", 200, () => rest("/v1/health")],
  ["a commit", 201, () => post("/v1/jobs/commit/cheap", TASK)],
  ["a bad commit", 400, () => post("/v1/jobs/commit/cheap", {})],
  ["an unpaid commit", 402, () => post("/v1/jobs/commit/fast", {}, {}, { TESTNET_MODE: "false" })],
  ["an unknown job", 404, () => rest(`/v1/jobs/${ID}`)],
  ["an unknown path", 404, () => rest("/v1/nothing")],
  ["a wrong method", 405, () => rest("/v1/quote", { method: "DELETE" })],
  ["a large body", 413, () => post("/v1/jobs/commit/cheap", "x".repeat(600_000))],
  ["a compressed body", 415, () => post("/v1/trust/create", "{}", { "content-encoding": "gzip" })],
  ["a refused job", 422, () => post("/v1/jobs/commit/cheap", { ...TASK, privacy_class: "PRIVATE" })],
  ["a wrong setting", 500, () => rest("/v1/health", {}, { EVM_PAY_TO: "nobody", SVM_PAY_TO: "nobody!" })],
  ["a bug in the hub", 500, () => rest("/v1/health", {}, failingHub({ remote: true }))],
  ["a hub out of reach", 503, () => rest("/v1/health", {}, failingHub({ overloaded: true }))],
  ["a store out of reach", 503, () => rest("/v1/trust/list?user_id=a", {}, { DB: failingDb() })],
  ["the OpenAPI document", 200, () => rest("/openapi.json")],
  ["the documentation", 200, () => rest("/docs")],
  ["a preflight", 204, () => rest("/v1/nothing", { method: "OPTIONS", headers: { "access-control-request-method": "POST", origin: "https://a.example" } })],
];

describe("headers of every answer", () => {
  test.each(answers)("[API1, API7] %s (%i) has a request id of the coordinator and may be read by any page", async (_name, status, ask) => {
    const response = await ask();
    expect(response.status).toBe(status);
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.has("access-control-allow-credentials")).toBe(false);
    expect(list(response.headers.get("access-control-expose-headers"))?.toSorted()).toEqual(EXPOSED.toSorted());
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  });

  test("[API1] a client's x-request-id is not echoed and no two are the same", async () => {
    const ids = await Promise.all([1, 2].map(async () => (await rest("/v1/health", { headers: { "x-request-id": "mine" } })).headers.get("x-request-id")));
    expect(new Set([...ids, "mine"]).size).toBe(3);
  });

  test.each(answers.filter(([, status]) => status !== 200 && status !== 204))("[API7] %s (%i) must not be cached", async (_name, _status, ask) => {
    expect((await ask()).headers.get("cache-control")).toBe("no-store");
  });

  test("[API7] a preflight allows our headers and methods", async () => {
    const headers = { "access-control-request-method": "POST", "access-control-request-headers": "x-payment", origin: "https://a.example" };
    const response = await rest("/v1/jobs/commit/fast", { method: "OPTIONS", headers });
    expect(response.status).toBe(204);
    expect(list(response.headers.get("access-control-allow-headers"))).toEqual(ALLOWED);
    expect(list(response.headers.get("access-control-allow-methods"))).toEqual(["GET", "HEAD", "POST", "DELETE", "OPTIONS"]);
    expect(Number(response.headers.get("access-control-max-age"))).toBeGreaterThan(0);
    expect(await response.text()).toBe("");
  });
});

describe("paths and methods", () => {
  test.each([
    ...["/", "/v1", "/v1/", "/v2/health", "/v1/health/", "/V1/health", "//v1/health", "/v1%2Fhealth", "/v1/jobs/", "/v1/jobs/commit/", "/v1/trust"],
    ...["/v1/jobs/commit/slow", `/v1/jobs/${ID}/`, `/v1/jobs/${ID}/more`, "/favicon.icon", "/%", "/%E0%A4%A", `/${"a".repeat(16_000)}`],
  ])("[API1] GET %s is 404 not_found", async (path) => {
    expect(await refusal(await rest(path), 404)).toBe("not_found");
  });

  test.each(["..%2f..", "%00", "%E0%A4%A", "a%0d%0aset-cookie:x", "commit", "1", ID.slice(1), `${ID}0`, ID.replaceAll("-", ""), "'%20OR%201=1"])(
    "[API1] GET /v1/jobs/%s is 404 Job not found",
    async (id) => {
      expect(await refusal(await rest(`/v1/jobs/${id}`), 404)).toBe("Job not found");
    },
  );

  const table = [
    ...[`/v1/jobs/${ID}`].map((path) => [path, "GET, DELETE, HEAD, OPTIONS"]),
    ...["/v1/health", "/v1/quote", "/v1/trust/list", "/openapi.json", "/docs"].map((path) => [path, "GET, HEAD, OPTIONS"]),
    ...["/v1/jobs/commit/fast", "/v1/jobs/commit/cheap", "/v1/trust/create", "/v1/trust/claim"].map((path) => [path, "POST, OPTIONS"]),
  ] as const;

  test.each(table)("[API1] other methods of %s are 405 with Allow: %s", async (path, allow) => {
    const allowed = allow?.split(", ") ?? [];
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((method) => !allowed.includes(method))) {
      const response = await rest(path ?? "", { method, ...(method !== "GET" && { body: "{}" }) });
      expect(await refusal(response, 405)).toBe("method_not_allowed");
      expect(response.headers.get("allow")).toBe(allow);
    }
    const options = await rest(path ?? "", { method: "OPTIONS" });
    expect([options.status, options.headers.get("allow"), await options.text()]).toEqual([204, allow, ""]);
  });

  test("[API1] OPTIONS of an unknown path is 404", async () => {
    expect(await refusal(await rest("/v1/nothing", { method: "OPTIONS" }), 404)).toBe("not_found");
  });

  test("[API1] HEAD answers as GET does, without the body; on a POST path it is 405", async () => {
    const head = await rest("/v1/health", { method: "HEAD" });
    expect([head.status, head.headers.get("content-type"), await head.text()]).toEqual([200, "application/json", ""]);
    const post = await rest("/v1/trust/create", { method: "HEAD" });
    expect([post.status, await post.text()]).toEqual([405, ""]);
  });
});

describe("faults", () => {
  test("[API1] an error in the hub is 500 internal_error, and the answer has only its request id", async () => {
    const response = await rest("/v1/health", {}, failingHub({ remote: true }));
    expect(await refusal(response, 500)).toBe("internal_error");
    expect(logged.mock.calls.join("\n")).toContain(response.headers.get("x-request-id"));
  });

  test("[API1] an overloaded hub is 503 overloaded, and is not asked again", async () => {
    const hub = failingHub({ overloaded: true, retryable: true });
    const response = await rest("/v1/health", {}, hub);
    expect(await refusal(response, 503)).toBe("overloaded");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(hub.calls()).toBe(1);
  });

  test.each(["retryable", "durableObjectReset"])("[API1] a hub that is lost once (%s) is asked again, with a new stub", async (flag) => {
    const hub = failingHub({ [flag]: true }, 1);
    await read(await rest("/v1/health", {}, hub), Health);
    expect(hub.calls()).toBe(2);
  });

  test("[API1] after an error without the platform's flags, as of a hub whose disk fails, it is tried again, then it is 503", async () => {
    const once = failingHub({}, 1);
    await read(await rest("/v1/health", {}, once), Health);
    const ever = failingHub({});
    expect(await refusal(await rest("/v1/health", {}, ever), 503)).toBe("overloaded");
    expect([once.calls(), ever.calls()]).toEqual([2, 2]);
  });

  test("[API1] a hub that is lost twice, in two ways, is 503", async () => {
    for (const [first, second] of [
      [{ retryable: true }, {}],
      [{ durableObjectReset: true, remote: true }, {}],
      [{}, { durableObjectReset: true }],
      [{}, { overloaded: true }],
    ]) {
      const errors = [first, second].map((marks) => Object.assign(new Error("internal error; reference = x"), marks));
      const ask = async () => {
        throw errors.shift() ?? new Error("asked a third time");
      };
      const HUB = { getByName: () => ({ workersOnline: ask }) };
      expect(await refusal(await rest("/v1/health", {}, { HUB }), 503)).toBe("overloaded");
      expect(errors).toEqual([]);
    }
  });

  test("[API1] a bug of ours before the hub is asked is 500 and is not tried again", async () => {
    let calls = 0;
    const ask = () => {
      calls++;
      throw new TypeError("x is not a function");
    };
    expect(await refusal(await rest("/v1/health", {}, { HUB: { getByName: () => ({ workersOnline: ask }) } }), 500)).toBe("internal_error");
    expect(calls).toBe(1);
  });

  test("[API1] after an error of the hub's own code it is not tried again", async () => {
    const hub = failingHub({ remote: true });
    await refusal(await rest("/v1/health", {}, hub), 500);
    expect(hub.calls()).toBe(1);
  });

  test("[API1] a hub that is lost twice is 503 overloaded", async () => {
    const hub = failingHub({ retryable: true });
    expect(await refusal(await rest("/v1/health", {}, hub), 503)).toBe("overloaded");
    expect(hub.calls()).toBe(2);
  });

  test("[API1] a failing D1 is 503 overloaded with Retry-After", async () => {
    const response = await rest("/v1/trust/list?user_id=a", {}, { DB: failingDb() });
    expect(await refusal(response, 503)).toBe("overloaded");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("[API1] a wrong setting is 500, and the log names the setting, not its value", async () => {
    const error = await refusal(await rest("/v1/health", {}, { PUBLIC_HOST: "https://secret.example/" }), 500);
    expect(error).toContain("PUBLIC_HOST");
    expect(error).not.toContain("secret");
  });
});

test("[API1] the deployed entry answers with the same app", async () => {
  const response = await main.fetch(new Request(new URL("/v1/health", ORIGIN)), { ...env }, createExecutionContext());
  expect((await read(response, Health)).status).toBe("ok");
});

test.each(["/v1/health", "/"])("[API1] a Host that is not ASCII is 400, also of an upgrade: %s", async (path) => {
  const headers = { host: "m\u00fcnchen.example", ...(path === "/" && { upgrade: "websocket" }) };
  expect(await refusal(await rest(path, { headers }), 400)).toContain("Host: expected a host name");
});
