import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { ORIGIN, refusal, rest } from "./rest.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);

/** The files that a page or a manifest names. */
function named(text: string): string[] {
  return [...new Set([...text.matchAll(/\/worker\/[\w.-]+/g)].map(([path]) => path))];
}

describe("GET /worker", () => {
  test("[API1] is a page that loads its own files and nothing else, under a strict policy", async () => {
    const response = await rest("/worker");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toMatch(/^text\/html/);
    expect(response.headers.get("cache-control")).toBe("no-cache");
    const policy = response.headers.get("content-security-policy")?.split("; ");
    expect(policy).toEqual(
      expect.arrayContaining([
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "connect-src 'self' ws://router.test wss://router.test",
        "frame-ancestors 'none'",
      ]),
    );
    expect(policy?.join()).not.toMatch(/unsafe|\*|https?:/);
    const page = await response.text();
    expect(page).not.toMatch(/<script(?![^>]* src=")|<style| style=| on\w+="|https?:\/\//);
    expect(named(page).length).toBeGreaterThanOrEqual(6);
  });

  test("every file that page, manifest and service worker name exists; those with a hash may be cached for ever", async () => {
    const texts = await Promise.all(["/worker", "/worker/manifest.webmanifest", "/worker/sw.js"].map(async (path) => (await rest(path)).text()));
    const files = new Set(texts.flatMap(named));
    expect([...files].filter((path) => /-[0-9a-f]{12}\./.test(path)).length).toBeGreaterThanOrEqual(4);
    for (const path of files) {
      const response = await rest(path);
      expect(response.status, path).toBe(200);
      expect(response.headers.get("cache-control"), path).toBe(/-[0-9a-f]{12}\./.test(path) ? "public, max-age=31536000, immutable" : "no-cache");
      // A Web Worker obeys the content policy of its own file.
      expect(response.headers.get("content-security-policy"), path).toContain("default-src 'none'");
      expect(response.headers.get("x-request-id"), path).toMatch(/^[0-9a-f-]{36}$/);
      if (path.endsWith(".js")) expect(response.headers.get("content-type"), path).toMatch(/javascript/);
      await response.arrayBuffer();
    }
  });

  test("the service worker may control the page and no other path", async () => {
    expect((await rest("/worker/sw.js")).headers.get("service-worker-allowed")).toBe("/worker");
    expect((await rest("/worker/icon.svg")).headers.get("service-worker-allowed")).toBeNull();
  });

  test("a file that the browser already has is not sent again", async () => {
    const first = await rest("/worker");
    const etag = first.headers.get("etag") ?? expect.unreachable();
    const again = await rest("/worker", { headers: { "if-none-match": etag } });
    expect(again.status).toBe(304);
    expect(await again.text()).toBe("");
  });

  test.each(["/worker", "/worker/", "/worker/sw.js", "/worker/nothing", "/worker/a/b"])("[WS1] %s with an upgrade is a worker socket", async (path) => {
    const response = await rest(path, { headers: { upgrade: "websocket" } });
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  test.each([
    "/worker/",
    "/worker/nothing.js",
    "/worker/index",
    "/worker/..%2f..%2fwrangler.evm.toml",
    "/worker/a/b",
    "/worker/%E0%A4",
    "/worker.html",
    "/index.html",
  ])("[API1] %s is 404 not_found in JSON", async (path) => {
    expect(await refusal(await rest(path), 404)).toBe("not_found");
  });

  test("[API1] other methods are 405", async () => {
    for (const path of ["/worker", "/worker/sw.js"]) {
      const response = await rest(path, { method: "POST", body: "{}" });
      expect(response.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
      expect(await refusal(response, 405)).toBe("method_not_allowed");
    }
  });

  test("[API1] a coordinator without pages answers 404 here and works", async () => {
    expect(await refusal(await rest("/worker", {}, { PAGES: undefined }), 404)).toBe("not_found");
    expect((await rest("/v1/health", {}, { PAGES: undefined })).status).toBe(200);
  });

  test("a Host header that a client invents does not get into the content policy", async () => {
    const response = await env.PAGES.fetch(`${ORIGIN}/worker/index.html`);
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    const strange = await rest("http://a;b.test/worker");
    expect(strange.headers.get("content-security-policy")).toContain("connect-src 'self';");
  });
});

describe("GET /pair", () => {
  test("[API1] is a page with the same content policy, and its own files may be cached for ever", async () => {
    const response = await rest("/pair");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toMatch(/^text\/html/);
    expect(response.headers.get("cache-control")).toBe("no-cache");
    expect(response.headers.get("referrer-policy")).toBe("no-referrer");
    expect(response.headers.get("content-security-policy")).toBe((await rest("/worker")).headers.get("content-security-policy"));
    const page = await response.text();
    expect(page).not.toMatch(/<script(?![^>]* src=")|<style| style=| on\w+="|https?:\/\//);
    const files = [...new Set([...page.matchAll(/"(\/(?:pair|worker)\/[\w.-]+)"/g)].map(([, path = ""]) => path))];
    expect(files.map((path) => path.replace(/-[0-9a-f]{12}/, "")).toSorted()).toEqual(["/pair/page.js", "/pair/style.css", "/worker/icon.svg"]);
    for (const path of files) {
      const file = await rest(path);
      expect(file.status, path).toBe(200);
      if (path.startsWith("/pair/")) expect(file.headers.get("cache-control")).toContain("immutable");
      await file.arrayBuffer();
    }
  });

  test("no page serves the files of another page, and only the worker page has a service worker", async () => {
    for (const path of ["/pair/sw.js", "/pair/manifest.webmanifest", "/pair/nothing.js", "/pair/a/b"]) {
      expect(await refusal(await rest(path), 404), path).toBe("not_found");
    }
    expect(await refusal(await rest("/pair", {}, { PAGES: undefined }), 404)).toBe("not_found");
  });

  test.each(["/pair", "/pair/page.js"])("[WS1] %s with an upgrade is a worker socket", async (path) => {
    const response = await rest(path, { headers: { upgrade: "websocket" } });
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close();
  });
});
