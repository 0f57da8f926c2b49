import { expect, test } from "vitest";
import { ShortRequest, ShortResponse } from "../../../src/coordinator/http/short-http.ts";

const LIST: [string, string][] = [
  ["host", "a"],
  ["x-forwarded-for", "1"],
  ["accept", ""],
  ["x-forwarded-for", "2"],
];

test("the headers of a short request are read as those of a request", () => {
  const url = "http://router.test/v1/jobs/commit/fast";
  const short = new ShortRequest({ method: "POST", url, headers: LIST, body: "{}" });
  const request = new Request(url, { method: "POST", headers: LIST, body: "{}" });
  for (const name of ["Host", "X-FORWARDED-FOR", "accept", "Cookie"]) {
    expect([name, short.headers.get(name), short.headers.has(name)]).toEqual([name, request.headers.get(name), request.headers.has(name)]);
  }
  expect([short.method, short.url, short.text]).toEqual([request.method, request.url, "{}"]);
});

test("a platform response can be made of a short one, as Hono does if it gets a second response", async () => {
  const short = new ShortResponse("{}", { status: 404, headers: { "Content-Type": "application/json" } });
  short.headers.set("X-Request-Id", "1");
  const response = new Response(short.body, { status: short.status, headers: [...short.headers] });
  expect([response.status, ...response.headers, await response.text()]).toEqual([404, ["content-type", "application/json"], ["x-request-id", "1"], "{}"]);
});
