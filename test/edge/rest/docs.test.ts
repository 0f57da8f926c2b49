import { describe, expect, test } from "vitest";
import * as z from "zod";
import { app } from "../../../src/coordinator/app.ts";
import { openApiDocument } from "../../../src/coordinator/openapi/document.ts";
import checkedIn from "../../../docs/openapi.json";
import { ORIGIN, read, refusal, rest } from "./rest.ts";

describe("GET /openapi.json and /docs", () => {
  const PAID = { TESTNET_MODE: "false", EVM_PAY_TO: "0x52908400098527886E0F7030069857D2E4169EE7" };

  test("[API8] serves the committed document, which is generated from the schemas", async () => {
    const response = await rest("/openapi.json", {}, PAID);
    expect(response.headers.get("content-type")).toBe("application/json");
    const served: unknown = await response.json();
    expect(served).toEqual(checkedIn);
    expect(JSON.parse(JSON.stringify(openApiDocument(checkedIn.info.version)))).toEqual(checkedIn);
  });

  test("[API8, PY1] tells catalogs the price of exactly the endpoints that /.well-known/x402 lists; where jobs are free, of none", async () => {
    const priced = Object.entries(openApiDocument("0").paths).filter(([, { post }]) => post?.["x-payment-info"] !== undefined);
    const listed = await read(await rest("/.well-known/x402", {}, PAID), z.looseObject({ resources: z.array(z.string()) }));
    expect(listed.resources).toEqual(priced.map(([path]) => ORIGIN + path));
    for (const [path, { post }] of priced) {
      const { headers } = await rest(path, { method: "POST" }, PAID);
      const required: { accepts: { amount: string }[] } = JSON.parse(atob(headers.get("payment-required") ?? ""));
      const { price, protocols } = post?.["x-payment-info"] ?? {};
      expect([price, protocols]).toEqual([{ mode: "fixed", currency: "USD", amount: (Number(required.accepts[0]?.amount) / 1e6).toFixed(3) }, [{ x402: {} }]]);
    }
    const free = await (await rest("/openapi.json")).text();
    expect(free).not.toContain("x-payment-info");
    expect(Object.keys(JSON.parse(free).paths)).toEqual(Object.keys(checkedIn.paths));
  });

  test("[API8] describes every route of the app and no other", () => {
    const routes = app.routes.filter(({ method }) => method !== "ALL").map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)(?:\{\S+\})?/g, "{$1}")}`);
    const described = Object.entries(checkedIn.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    expect([...new Set(routes)]).toEqual(described);
  });

  test("[API8] the page shows every operation, and loads nothing but its own files", async () => {
    const response = await rest("/docs");
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache");
    expect(response.headers.get("content-security-policy")).toBe((await rest("/worker")).headers.get("content-security-policy"));
    const page = await response.text();
    const operations = Object.values(openApiDocument("0").paths).flatMap((methods) => Object.values(methods));
    for (const { operationId } of operations) {
      expect(page).toContain(`<section id="${operationId}">`);
    }
    expect(page).not.toMatch(/<script(?![^>]* src="\/)|<style| style=| on\w+="|<img|<iframe|(?:src|href)="(?:https?:)?\/\//);
    expect(page).not.toMatch(/https?:\/\/(?!localhost:4010|router\.example)/);
  });

  test("[API8] every file that the page names exists, and its own files may be cached for ever", async () => {
    const page = await (await rest("/docs")).text();
    const files = [...page.matchAll(/(?:src|href)="(\/(?:docs|worker)\/[\w.-]+)"/g)].map(([, path = ""]) => path);
    expect(files.map((path) => path.replace(/-[0-9a-f]{12}/, "")).toSorted()).toEqual(["/docs/page.js", "/docs/style.css", "/worker/icon.svg"]);
    const types: Record<string, RegExp> = { js: /^(?:text|application)\/javascript/, css: /^text\/css/, svg: /^image\/svg\+xml/ };
    for (const path of files) {
      const file = await rest(path);
      expect(file.status, path).toBe(200);
      expect(file.headers.get("content-type")).toMatch(types[path.split(".")[1] ?? ""] ?? "");
      if (path.startsWith("/docs/")) expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      await file.arrayBuffer();
    }
  });

  test("[API8] lists both endpoints of models together", async () => {
    const page = await (await rest("/docs")).text();
    expect(page).toMatch(/<a href="#listModels">[^\n]*<\/a><\/li><li><a href="#getModel">/);
  });

  test("[API1] leads to the other pages", async () => {
    const page = await (await rest("/docs")).text();
    expect(["/", "/worker", "/pair"].filter((path) => !page.includes(`<a href="${path}">`))).toEqual([]);
  });

  test("[API8] a browser that has the page gets 304", async () => {
    const etag = (await rest("/docs")).headers.get("etag") ?? "";
    const again = await rest("/docs", { headers: { "if-none-match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
  });

  test("[API1, WS1] /docs belongs to the REST table: an upgrade header changes nothing, and other methods are 405", async () => {
    expect((await rest("/docs", { headers: { upgrade: "websocket" } })).status).toBe(200);
    const post = await rest("/docs", { method: "POST" });
    expect(post.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
    expect(await refusal(post, 405)).toBe("method_not_allowed");
  });

  test.each(["/docs/nothing.js", "/docs/..%2Fworker", "/docs/a/b"])("[API1] %s is 404", async (path) => {
    expect(await refusal(await rest(path), 404)).toBe("not_found");
  });

  test.each(["/docs", "/pair"])("[API1] %s/ leads to the page without the slash, as a page only", async (path) => {
    for (const method of ["GET", "HEAD"]) {
      const answer = await rest(`${path}/?code=1`, { method, redirect: "manual" });
      expect([answer.status, answer.headers.get("location"), await answer.text()]).toEqual([308, `${path}?code=1`, ""]);
      expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    }
    expect(await refusal(await rest(`${path}/`, { method: "POST" }), 404)).toBe("not_found");
    expect(await refusal(await rest(`${path}/`, {}, { PAGES: undefined }), 404)).toBe("not_found");
    expect(await refusal(await rest(`${path}//`), 404)).toBe("not_found");
    const socket = await rest(`${path}/`, { headers: { upgrade: "websocket" } });
    expect(socket.status).toBe(101);
    socket.webSocket?.accept();
    socket.webSocket?.close();
  });

  test("[API1] an instance without pages has no page here either", async () => {
    expect(await refusal(await rest("/docs", {}, { PAGES: undefined }), 404)).toBe("not_found");
  });

  test("[API8] every link inside the page has its target", async () => {
    const page = await (await rest("/docs")).text();
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    const targets = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id);
    expect(targets.length).toBeGreaterThan(20);
    expect(targets.filter((id) => !ids.has(id))).toEqual([]);
  });

  test("[SPEC] both instances serve the same description", () => {
    expect(JSON.stringify(checkedIn.servers)).not.toMatch(/evm|svm/);
  });
});
