import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { app } from "../../../src/coordinator/app.ts";
import { openApiDocument } from "../../../src/coordinator/openapi/document.ts";
import checkedIn from "../../../docs/openapi.json";
import { rest } from "./rest.ts";

describe("GET /openapi.json and /docs", () => {
  test("[API8] serves the document that is checked in, and that is what the schemas say", async () => {
    const response = await rest("/openapi.json");
    expect(response.headers.get("content-type")).toBe("application/json");
    const served: unknown = await response.json();
    expect(served).toEqual(checkedIn);
    expect(JSON.parse(JSON.stringify(openApiDocument(checkedIn.info.version)))).toEqual(checkedIn);
  });

  test("[API8] describes every route of the app and no other", () => {
    const routes = app.routes.filter(({ method }) => method !== "ALL").map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);
    const described = Object.entries(checkedIn.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    expect([...new Set(routes)]).toEqual(described);
  });

  test("[API8] the page shows every operation and loads nothing", async () => {
    const response = await rest("/docs");
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
    const page = await response.text();
    const operations = Object.values(openApiDocument("0").paths).flatMap((methods) => Object.values(methods));
    for (const { operationId } of operations) {
      expect(page).toContain(`<section id="${operationId}">`);
    }
    expect(page).not.toMatch(/<script|<img|<iframe|@import|url\(|src=|https?:\/\/(?!localhost:4010|router\.example)/);
  });

  test("[API8] every link inside the page has its target", async () => {
    const page = await (await rest("/docs")).text();
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    const targets = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id);
    expect(targets.length).toBeGreaterThan(20);
    expect(targets.filter((id) => !ids.has(id))).toEqual([]);
  });

  test("[SPEC] both instances serve the same description", () => {
    expect(JSON.stringify(checkedIn.servers)).not.toContain(env.INSTANCE);
  });
});
