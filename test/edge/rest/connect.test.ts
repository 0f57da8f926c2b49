import { describe, expect, onTestFinished, test, vi } from "vitest";
import { CLIENT_HEADER } from "../../../src/coordinator/hub/rpc.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { Health } from "../../../src/protocol/rest.ts";
import { RETRY_AFTER } from "../../../src/protocol/times.ts";
import { failingHub, read, refusal, rest } from "./rest.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);

const upgrade = { headers: { upgrade: "websocket" } };

describe("WebSocket upgrade", () => {
  test.each(["/", "/ws", "/v1", "/v1/ws", "/v1/health/", "/v1/jobs/x/y", "/any/path?x=1"])("[WS1] %s is a worker socket", async (path) => {
    const response = await rest(path, upgrade);
    expect(response.status).toBe(101);
    const socket = response.webSocket ?? expect.unreachable();
    const first = new Promise<MessageEvent>((done) => socket.addEventListener("message", done));
    socket.accept();
    expect(JSON.parse(String((await first).data))).toMatchObject({ type: "challenge", host: "router.test" });
    socket.close();
  });

  test("[WS1] the header's value is read in any case", async () => {
    const response = await rest("/", { headers: { upgrade: "WebSocket" } });
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  test("[WS1] on a REST path the answer is the REST one", async () => {
    expect((await read(await rest("/v1/health", upgrade), Health)).status).toBe("ok");
    expect(await refusal(await rest("/v1/quote", upgrade), 400)).toContain("job_type");
    expect(await refusal(await rest("/v1/jobs/commit/fast", upgrade), 405)).toBe("method_not_allowed");
  });

  test("[API1] without an upgrade, with another upgrade, or with another method it is 404", async () => {
    expect(await refusal(await rest("/"), 404)).toBe("not_found");
    expect(await refusal(await rest("/", { headers: { upgrade: "h2c" } }), 404)).toBe("not_found");
    expect(await refusal(await rest("/", { method: "POST", ...upgrade }), 404)).toBe("not_found");
  });

  test("[LM2] an upgrade that is refused counts; a client over its rate is refused before the hub is asked", async () => {
    let asked = 0;
    const fetch = async () => {
      asked++;
      return new Response(null, { status: 503 });
    };
    const settings = { RATE_LIMITS: "on", CONNECTS_PER_MINUTE: "5", TRUSTED_IP_HEADER: "x-test-ip", HUB: { getByName: () => ({ fetch }) } };
    const dial = (address: string) => rest("/", { headers: { upgrade: "websocket", "x-test-ip": address } }, settings);
    for (let n = 0; n < 5; n++) expect(await refusal(await dial("203.0.113.5"), 503)).toBe("overloaded");
    const over = await dial("203.0.113.5");
    expect(Number(over.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refusal(over, 429)).toBe("rate_limited");
    expect(asked).toBe(5);
    expect(await refusal(await dial("203.0.113.6"), 503)).toBe("overloaded");
  });

  test("[LM1, LM2] the hub counts a socket for the client that the coordinator sees, whatever name the client sends for itself", async () => {
    const counted: unknown[] = [];
    const fetch = async ({ headers }: Request) => {
      counted.push(headers.get(CLIENT_HEADER));
      return new Response(null, { status: 503 });
    };
    const settings = { TRUSTED_IP_HEADER: "x-test-ip", HUB: { getByName: () => ({ fetch }) } };
    await rest("/", { headers: { upgrade: "websocket", "x-test-ip": "203.0.113.9", [CLIENT_HEADER]: "198.51.100.1" } }, settings);
    expect(counted).toEqual(["203.0.113.9"]);
  });

  test.each([
    ["17", "17"],
    [null, String(RETRY_AFTER.rate_limited)],
    ["soon", String(RETRY_AFTER.rate_limited)],
  ])("[LM2] a client over a count of the hub is told when it may dial again, as the hub says (%s: %s)", async (said, told) => {
    const fetch = async () => new Response(null, { status: 429, headers: said === null ? {} : { "Retry-After": said } });
    const response = await rest("/", upgrade, { HUB: { getByName: () => ({ fetch }) } });
    expect(response.headers.get("retry-after")).toBe(told);
    expect(await refusal(response, 429)).toBe("rate_limited");
  });

  test("[API1] if the hub cannot be reached it is 503", async () => {
    expect(await refusal(await rest("/", upgrade, failingHub({ overloaded: true })), 503)).toBe("overloaded");
  });

  test("[LM1, API7] a refusal of the hub has the common headers", async () => {
    // The clock stands still: a socket that has been unregistered for 2 s could be replaced.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    onTestFinished(() => void vi.useRealTimers());
    const responses = await Promise.all(Array.from({ length: LIMITS.unregisteredSockets + 1 }, () => rest("/", upgrade)));
    const sockets = responses.flatMap(({ webSocket }) => webSocket ?? []);
    for (const socket of sockets) socket.accept();
    const response = responses.find(({ status }) => status !== 101) ?? expect.unreachable();
    expect(response.status).toBe(503);
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("retry-after")).toBe("2");
    expect(await response.json()).toEqual({ error: "overloaded", request_id: response.headers.get("x-request-id") });
    for (const socket of sockets) socket.close();
  });
});
