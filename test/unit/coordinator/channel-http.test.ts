import { expect, test } from "vitest";
import { PlainRequest, PlainResponse } from "../../../src/coordinator/http/channel-http.ts";

const LIST: [string, string][] = [
  ["host", "a"],
  ["x-forwarded-for", "1"],
  ["accept", ""],
  ["x-forwarded-for", "2"],
];

test("the headers of a plain request are read as those of a request", () => {
  const url = "http://router.test/v1/jobs/commit/fast";
  const plain = new PlainRequest({ method: "POST", url, headers: LIST, body: "{}" });
  const request = new Request(url, { method: "POST", headers: LIST, body: "{}" });
  for (const name of ["Host", "X-FORWARDED-FOR", "accept", "Cookie"]) {
    expect([name, plain.headers.get(name), plain.headers.has(name)]).toEqual([name, request.headers.get(name), request.headers.has(name)]);
  }
  expect([plain.method, plain.url, plain.text]).toEqual([request.method, request.url, "{}"]);
});

test("a platform response can be made of a plain one, as Hono does if it gets a second response", async () => {
  const plain = new PlainResponse("{}", { status: 404, headers: { "Content-Type": "application/json" } });
  plain.headers.set("X-Request-Id", "1");
  const response = new Response(plain.body, { status: plain.status, headers: [...plain.headers] });
  expect([response.status, ...response.headers, await response.text()]).toEqual([404, ["content-type", "application/json"], ["x-request-id", "1"], "{}"]);
});
