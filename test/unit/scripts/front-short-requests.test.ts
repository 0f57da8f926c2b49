import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RequestReader } from "../../../scripts/front-requests.ts";
import { shortRequestOf, socketRequestOf } from "../../../scripts/front-short-requests.ts";
import { cpuTimeOf } from "../../support/cpu-time.ts";

const ID = "019acd00-0000-7000-8000-0123456789ab";
const BODY = '{"user_id":"Zoë"}';
const get = (target = `/v1/jobs/${ID}`, headers = ""): string => `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:4010\r\n${headers}\r\n`;
const post = (headers = "", body = BODY, path = "cheap"): string =>
  `POST /v1/jobs/commit/${path} HTTP/1.1\r\nHost: router.example\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`;
const read = (text: string, commits = true) => shortRequestOf(Buffer.from(text), commits);

describe("a short request", () => {
  it("is a poll or a commit, with its headers, its body, and its length", () => {
    expect(read(`${get(undefined, "Accept: */*\r\nConnection: keep-alive\r\n")}GET /`)).toEqual({
      method: "GET",
      url: `http://127.0.0.1:4010/v1/jobs/${ID}`,
      headers: [
        ["host", "127.0.0.1:4010"],
        ["accept", "*/*"],
      ],
      body: null,
      bytes: get(undefined, "Accept: */*\r\nConnection: keep-alive\r\n").length,
    });
    expect(read(post("Prefer:  wait=5 \r\nX-Empty:\r\n"))).toEqual({
      method: "POST",
      url: "http://router.example/v1/jobs/commit/cheap",
      headers: [
        ["host", "router.example"],
        ["content-length", "18"],
        ["prefer", "wait=5"],
        ["x-empty", ""],
      ],
      body: BODY,
      bytes: Buffer.byteLength(post("Prefer:  wait=5 \r\nX-Empty:\r\n")),
    });
    expect(read(get(`/v1/jobs/${ID}?wait=30`))).toMatchObject({ url: `http://127.0.0.1:4010/v1/jobs/${ID}?wait=30` });
    expect(read(post("", BODY, "fast"))).toMatchObject({ url: "http://router.example/v1/jobs/commit/fast" });
    expect(read(post("", ""))).toMatchObject({ body: "" });
    expect(read(post("", "x".repeat(64 * 1024)))).toMatchObject({ method: "POST" });
  });

  it("is incomplete in each of its beginnings", () => {
    for (const text of [get(), post("Prefer: wait=5\r\n")]) {
      const bytes = Buffer.from(text);
      for (let end = 1; end < bytes.length; end++) expect(shortRequestOf(bytes.subarray(0, end), true)).toBe("incomplete");
      expect(shortRequestOf(bytes, true)).toMatchObject({ bytes: bytes.length });
    }
  });

  it.each([
    ["another path", get("/v1/health")],
    ["the events of a job", get(`/v1/jobs/${ID}/events`)],
    ["a query that is not a number", get(`/v1/jobs/${ID}?wait=x`)],
    ["another query", get(`/v1/jobs/${ID}?a=1`)],
    ["an id in capitals", get(`/v1/jobs/${ID.toUpperCase()}`)],
    ["a whole URL", get(`http://a/v1/jobs/${ID}`)],
    ["another method", get().replace("GET", "HEAD")],
    ["another version", get().replace("HTTP/1.1", "HTTP/1.0")],
    ["an upgrade", get(undefined, "Connection: Upgrade\r\nUpgrade: websocket\r\n")],
    ["an end of the connection", get(undefined, "Connection: close\r\n")],
    ["a body that is expected", post("Expect: 100-continue\r\n")],
    ["a chunked body", get(undefined, "Transfer-Encoding: chunked\r\n")],
    ["a poll with a body", get(undefined, "Content-Length: 1\r\n")],
    ["two lengths", post("Content-Length: 17\r\n")],
    ["a length that is no number", post().replace(/Length: \d+/, "Length: +17")],
    ["a commit without a length", post().replace(/Content-Length: \d+\r\n/, "")],
    ["a body of more than 64 KiB", post("", "x".repeat(64 * 1024 + 1))],
    ["no host", get().replace(/Host: .*\r\n/, "")],
    ["two hosts", get(undefined, "Host: b\r\n")],
    ["a port that there is not", get().replace(":4010", ":99999")],
    ["a host that no URL has", get().replace("127.0.0.1:4010", "1.2.3.999")],
    ["a host with a slash", get().replace("127.0.0.1:4010", "a/b")],
    ["a folded line", get(undefined, "A: b\r\n c\r\n")],
    ["a space before the colon", get(undefined, "A : b\r\n")],
    ["a line that ends in LF", get(undefined, "A: b\nB: c\r\n")],
    ["a CR in a value", get(undefined, "A: b\rc\r\n")],
    ["a NUL in a value", get(undefined, "A: b\0\r\n")],
    ["a value that is not ASCII", get(undefined, "A: ë\r\n")],
    ["a line without a name", get(undefined, ": b\r\n")],
    ["a head of more than 8 KiB", get(undefined, `A: ${"b".repeat(8 * 1024)}\r\n`)],
    ["a line that ends in LF and no end yet", get().slice(0, -2).replace("\r\n", "\n")],
    ["an empty line first", `\r\n${get()}`],
  ])("is not one with %s", (_, text) => {
    expect(read(text)).toBe(null);
  });

  it("has a body of UTF-8", () => {
    expect(shortRequestOf(Buffer.from(post("", "ÿ"), "utf8"), true)).toMatchObject({ body: "ÿ" });
    expect(shortRequestOf(Buffer.from(post("", "xÿ").replace("Length: 3", "Length: 2"), "latin1"), true)).toBe(null);
  });

  it("is only a poll where commits are none", () => {
    expect(read(post(), false)).toBe(null);
    expect(read("P", false)).toBe(null);
    expect(read(get(), false)).toMatchObject({ method: "GET" });
  });

  const long = 8_000;
  const blanks = "\t ".repeat(long / 2);
  it.each([`A:${blanks}`, `A:${" ".repeat(long)}`, `A:${blanks.slice(0, long / 2)}b${blanks}`, `A: ${"b ".repeat(long / 2)}`, "A".repeat(long)])(
    "[API6] with a long header is read in time linear in its length (%#)",
    (header) => {
      const text = get(undefined, `${header.slice(0, long)}\x01\r\n`);
      expect(text.length).toBeLessThan(8 * 1024);
      expect(read(text)).toBe(null);
      // A hundred of them: each once took 36 ms.
      expect(cpuTimeOf(() => Array.from({ length: 100 }, () => read(text)))).toBeLessThan(500);
    },
  );

  it("ends where the reader of the other path ends it, however it is written", () => {
    const line = fc.constantFrom(
      "A: b",
      "A:",
      "A : b",
      " a",
      "Content-Length: 3",
      "content-length:4",
      "Transfer-Encoding: chunked",
      "X: \t",
      "Connection: keep-alive",
      "\n",
      "",
    );
    const end = fc.constantFrom("\r\n", "\r\n", "\r\n", "\n", "\r");
    const lines = fc.array(
      fc.tuple(line, end).map((parts) => parts.join("")),
      { maxLength: 5 },
    );
    const upgrade = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n";
    let found = 0;
    fc.assert(
      fc.property(fc.constantFrom(get(), post()), lines, fc.string({ maxLength: 8 }), (request, more, rest) => {
        const at = request.indexOf("\r\n") + 2;
        const bytes = Buffer.from(request.slice(0, at) + more.join("") + request.slice(at) + rest, "latin1");
        const short = shortRequestOf(bytes, true);
        if (short === null || short === "incomplete") return;
        found++;
        const passed: Buffer[] = [];
        const next = new RequestReader((part) => passed.push(part)).read(Buffer.concat([bytes.subarray(0, short.bytes), Buffer.from(upgrade)]));
        expect(next?.head).toBe(upgrade);
        expect(Buffer.concat(passed).length).toBe(short.bytes + upgrade.length);
      }),
      { numRuns: 3_000 },
    );
    expect(found).toBeGreaterThan(100);
  });
});

describe("an upgrade to a worker's socket", () => {
  const upgrade = (key: string): Buffer =>
    Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`);

  it("has a key in base64: with another one it would be dialled at the hub and refused by the WebSocket library", () => {
    expect(socketRequestOf(upgrade("+/hlIHNhbXBsZSBub25jZQ=="))).toMatchObject({ url: "http://a/" });
    expect(socketRequestOf(upgrade("_GhlIHNhbXBsZSBub25jZQ=="))).toBe(null);
  });
});
