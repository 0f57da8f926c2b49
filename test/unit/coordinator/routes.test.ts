import { RegExpRouter } from "hono/router/reg-exp-router";
import { expect, test } from "vitest";
import { app } from "../../../src/coordinator/app.ts";

// Hono takes it by itself if no two paths conflict, and else a router that needs ten times as long for each request.
test("Hono's fastest router takes all routes", () => {
  const router = new RegExpRouter<string>();
  for (const { method, path } of app.routes) router.add(method, path, `${method} ${path}`);
  const matched = (method: string, path: string) => router.match(method, path)[0].map(([route]) => route);
  expect(matched("POST", "/v1/jobs/commit/fast")).toContain("POST /v1/jobs/commit/fast");
  expect(matched("GET", "/v1/jobs/x/events")).toContain("GET /v1/jobs/:id/events");
});
