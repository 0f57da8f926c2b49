import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { head, RawHttp, rawRequest } from "../support/raw-http.ts";

let evm: Subject;
const UNKNOWN = "11111111-2222-4333-8444-555555555555";

beforeAll(async () => {
  // As a deployed coordinator: a local one answers to no foreign host or origin.
  evm = await start("evm", { TESTNET_MODE: "true", PUBLIC_HOST: "" });
});

const send = (...lines: string[]) => rawRequest(evm.port, head(...lines));
const host = () => `Host: ${evm.host}`;

describe("two lengths of one request", () => {
  const smuggled = () => head("GET /v1/quote?job_type=TASK HTTP/1.1", host());
  const post = "POST /v1/trust/create HTTP/1.1";

  test.each([
    ["two Content-Lengths", ["Content-Length: 4", "Content-Length: 40"], "{}{}"],
    ["a list of them", ["Content-Length: 2, 40"], "{}"],
    ["a negative one", ["Content-Length: -1"], "{}"],
    ["one with a sign", ["Content-Length: +2"], "{}"],
    ["one in hex", ["Content-Length: 0x2"], "{}"],
    ["one past 2^64", ["Content-Length: 99999999999999999999"], "{}"],
    ["an unknown Transfer-Encoding", ["Transfer-Encoding: xchunked"], "0\r\n\r\n"],
    ["chunked, but not at last", ["Transfer-Encoding: chunked, identity"], "0\r\n\r\n"],
    ["a blank before the colon", ["Transfer-Encoding : chunked"], "0\r\n\r\n"],
    ["a folded header", ["X-A: b\r\n c"], ""],
    ["a NUL in a header", ["X-A: b\0c"], ""],
  ])("[API1] %s: 400, and what follows on the connection is not read as a request", async (_name, headers, body) => {
    const raw = new RawHttp(evm.port);
    raw.write(head(post, host(), ...headers) + body + smuggled());
    const answer = await raw.answer();
    expect(answer.status, answer.all).toBe(400);
    raw.end();
    expect(raw.all).not.toContain("policy_resolved");
  });

  test("[API1] Content-Length and Transfer-Encoding together: the chunks decide, and the length does not", async () => {
    const body = JSON.stringify({ user_id: newUser() });
    const answer = await rawRequest(
      evm.port,
      `${head(post, host(), "Content-Length: 3", "Transfer-Encoding: chunked")}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    );
    expect([201, 400]).toContain(answer.status);
    expect((await evm.api.get("/v1/health")).status).toBe(200);
  });

  test("[API1] a body that ends before its length is no request", async () => {
    const raw = new RawHttp(evm.port);
    raw.write(`${head("POST /v1/jobs/commit/cheap HTTP/1.1", host(), "Content-Length: 5000")}${JSON.stringify(task(newUser()))}`);
    raw.socket.end();
    const { status } = await raw.answer().catch(() => ({ status: 0 }));
    expect([0, 400, 500]).toContain(status);
    expect(raw.all).not.toContain("job_id");
  });
});

describe("request lines and hosts", () => {
  test("[API1] a target in absolute form is answered for its path, by this coordinator", async () => {
    const answer = await send("GET http://evil.example:1/v1/jobs/x HTTP/1.1", host());
    expect(answer).toMatchObject({ status: 404, body: '{"error":"Job not found"}' });
  });

  test.each(["evil.example", "evil.example:81", "127.0.0.1", ".."])("[API1] Host: %s is told nothing of itself", async (name) => {
    const answer = await send("GET /v1/health HTTP/1.1", `Host: ${name}`);
    expect([200, 404], answer.all).toContain(answer.status);
    expect(answer.all).not.toContain("evil");
  });

  test.each(["a b", "[::1", "x:99999", "", "a%00b", "\u00ff", "a@b", "evil.example/v1/jobs", "evil.example?x", "a#b", "a\\b"])(
    "[API1] Host: %s, which is none, is refused without a word about the inside",
    async (name) => {
      const answer = await send("GET /v1/health HTTP/1.1", `Host: ${name}`);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.all).not.toMatch(/\bat .*\.(ts|js)|workerd|wrangler|node_modules|stack/i);
      expect((await evm.api.get("/v1/health")).status).toBe(200);
    },
  );

  test("[API1, LM1] a Host of 1,025 characters is 400, for a page and for a worker's socket; one of 1,024 is answered", async () => {
    const upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
    expect((await send("GET /v1/health HTTP/1.1", `Host: ${"x".repeat(1_024)}`)).status).toBe(200);
    expect((await send("GET /v1/health HTTP/1.1", `Host: ${"x".repeat(1_025)}`)).status).toBe(400);
    expect((await send("GET / HTTP/1.1", `Host: ${"x".repeat(1_025)}`, ...upgrade)).status).toBe(400);
  });

  test.each([
    ["no request at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"],
    ["HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["a request without a host", head("GET /v1/health HTTP/1.1")],
    ["a target that is no path", head("GET v1/health HTTP/1.1", "Host: x")],
  ])("[API1] %s: refused or dropped, and the next one is served", async (_name, text) => {
    const answer = await rawRequest(evm.port, text);
    expect([0, 400]).toContain(answer.status);
    expect((await evm.api.get("/v1/health")).status).toBe(200);
  });

  test("[API1] TRACE gives no header back", async () => {
    const answer = await send("TRACE /v1/health HTTP/1.1", host(), "X-Secret: told-nobody");
    expect(answer.status).toBe(405);
    expect(answer.all).not.toContain("told-nobody");
  });

  test.each(["/v1/../../etc/passwd", "/v1/jobs/..%2f..%2fetc", "/v1/health/", "/v1/health;x", "/v1//health", "/v1/health%00", "/v1/health%20"])(
    "[API1] GET %s is 404 in JSON, never a file, never HTML",
    async (path) => {
      const answer = await send(`GET ${path} HTTP/1.1`, host());
      expect(answer.status, answer.all).toBe(404);
      expect(answer.head).toMatch(/content-type: application\/json/i);
      expect(JSON.parse(answer.body)).toEqual({ error: expect.stringMatching(/^(not_found|Job not found)$/) });
    },
  );

  test("[API1] a URL of 60 KB is read, one of 200 KB and a head of 600 KB are refused, and the service goes on", async () => {
    expect((await send(`GET /v1/jobs/${"a".repeat(60_000)} HTTP/1.1`, host())).status).toBe(404);
    expect([400, 414, 431]).toContain((await send(`GET /v1/jobs/${"a".repeat(200_000)} HTTP/1.1`, host())).status);
    expect([400, 413, 431]).toContain((await send("GET /v1/health HTTP/1.1", host(), `X-A: ${"a".repeat(600_000)}`)).status);
    const many = Array.from({ length: 2_000 }, (_, index) => `X-${index}: a`);
    expect((await send("GET /v1/health HTTP/1.1", host(), ...many)).status).toBe(200);
  });
});

describe("headers", () => {
  test("[API1, API7] line breaks in an id, a key, an origin or a request id add no header", async () => {
    const crlf = "%0d%0aSet-Cookie:%20stolen=1";
    for (const path of [`/v1/jobs/${crlf}`, `/v1/quote?job_type=${crlf}`, `/v1/trust/list?user_id=${crlf}`, `/${crlf}`, `/v1/jobs/${UNKNOWN}?wait=${crlf}`]) {
      const answer = await send(`GET ${path} HTTP/1.1`, host(), "Origin: https://evil.example", "X-Request-Id: mine");
      expect(answer.head).not.toMatch(/set-cookie|evil\.example|mine|stolen/i);
    }
  });

  test("[API7] a preflight that asks for a thousand headers and any method gets the same answer as every other, without its own text", async () => {
    const asked = Array.from({ length: 1_000 }, (_, index) => `x-evil-${index}`).join(", ");
    const answer = await evm.api.ask("OPTIONS", "/v1/jobs/commit/fast", undefined, {
      origin: "https://evil.example",
      "access-control-request-method": "PATCH",
      "access-control-request-headers": asked,
    });
    expect(answer.status).toBe(204);
    expect(JSON.stringify([...answer.headers])).not.toContain("evil");
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
  });

  test("[API1] headers of proxies that override method or path change no answer", async () => {
    const odd = {
      ...{
        "x-http-method-override": "DELETE",
        "x-original-url": "/v1/jobs",
        "x-rewrite-url": "/docs",
        "x-forwarded-for": "127.0.0.1",
        "x-real-ip": "127.0.0.1",
      },
      ...{ "cf-connecting-ip": "1.1.1.1", "cf-worker": "x", "x-router-client": "somebody", "x-user-token": "t", cookie: "a=b", authorization: "Bearer x" },
    };
    const plain = await evm.api.get(`/v1/jobs/${UNKNOWN}`);
    const answer = await evm.api.get(`/v1/jobs/${UNKNOWN}`, odd);
    expect([answer.status, answer.text]).toEqual([plain.status, plain.text]);
    expect([...answer.headers.keys()].toSorted()).toEqual([...plain.headers.keys()].toSorted());
  });

  test("[API1] headers and paths of an emulator open no door: they choose no URL, and nobody fires the cron", async () => {
    const door = { "mf-original-url": `${evm.url}/v1/health`, "mf-route-override": "x", "mf-disable-pretty-error": "true", "mf-cf-blob": '{"colo":"x"}' };
    const answer = await evm.api.get("/nothing", door);
    expect([answer.status, answer.body]).toEqual([404, expect.objectContaining({ error: "not_found" })]);
    for (const path of ["/cdn-cgi/local/scheduled", "/cdn-cgi/handler/scheduled", "/cdn-cgi/mf/scheduled", "/cdn-cgi/explorer", "/cdn-cgi/trace"]) {
      const { status, text } = await evm.api.get(path);
      expect([path, status, text]).toEqual([path, 404, expect.stringContaining("not_found")]);
    }
  });

  test("[LM1, API1] a compressed body is 415 and is never decompressed, so a zip bomb has no effect", async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1_024 * 1_024, 0x20), { level: 9 });
    expect(bomb.length).toBeLessThan(200_000);
    for (const encoding of ["gzip", "br", "deflate", "gzip, gzip", "x"]) {
      const answer = await evm.api.tryCommit(new Uint8Array(bomb), "cheap", { "content-encoding": encoding });
      expect(answer.status).toBe(415);
      expect(answer.ms).toBeLessThan(5_000);
    }
  });

  test("[API8] the pages cannot be framed, run nothing from elsewhere and nothing inline, whatever Host is named", async () => {
    for (const path of ["/docs", "/worker"]) {
      for (const name of [evm.host, "evil.example", "a_b.-example:81"]) {
        const { status, head: heading, all } = await send(`GET ${path} HTTP/1.1`, `Host: ${name}`);
        expect(status, all).toBe(200);
        const policy = /^content-security-policy: (.*)$/im.exec(heading)?.[1] ?? "";
        const directives = new Map(policy.split(";").map((directive) => [directive.trim().split(" ")[0], directive.trim()]));
        expect(directives.get("default-src")).toBe("default-src 'none'");
        expect(directives.get("frame-ancestors")).toBe("frame-ancestors 'none'");
        expect([undefined, "script-src 'self'"]).toContain(directives.get("script-src"));
        expect(heading).toMatch(/^x-content-type-options: nosniff/im);
      }
    }
  });

  test("[API1] no error contains a stack, a file name or an internal name", async () => {
    const asks = await Promise.all([
      evm.api.tryCommit("{"),
      evm.api.tryCommit({ job_type: {}, payload: [], user_id: null }),
      evm.api.tryCommit("x".repeat(600_000)),
      evm.api.get("/v1/quote?policy=%00"),
      evm.api.get(`/v1/jobs/${UNKNOWN}?wait=x`),
      evm.api.get("/v1/trust/list?user_id=%00"),
      evm.api.post("/v1/trust/claim", { pairing_code: {}, provider_pubkey: [] }),
      evm.api.ask("PUT", "/v1/health"),
      evm.api.get("/__proto__"),
    ]);
    for (const { status, text } of asks) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
      expect(text).not.toMatch(/\bat [^ ]+ \(|\.(ts|js|mjs)\b|zod|hono|sqlite|D1_|node_modules|workerd/i);
    }
  });

  test.each(["/metrics", "/admin", "/dashboard", "/debug", "/status", "/v1/admin", "/v1/metrics", "/v1/workers", "/v1/users", "/.git/config"])(
    "[API1] there is no %s to be left open",
    async (path) => {
      expect(await evm.api.get(path)).toMatchObject({ status: 404, body: { error: "not_found" } });
    },
  );
});
