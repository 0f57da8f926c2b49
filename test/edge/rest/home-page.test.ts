import { describe, expect, test, vi } from "vitest";
import { failingHub, refusal, rest } from "./rest.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);

/** The `Accept` of Chromium, Firefox and Safari when someone types an address. */
const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const PAID = { TESTNET_MODE: "false", EVM_PAY_TO: "0x52908400098527886E0F7030069857D2E4169EE7" };

const home = (headers: Record<string, string> = {}, overrides = {}, path = "/") => rest(path, { headers: { accept: BROWSER, ...headers } }, overrides);

describe("GET /", () => {
  test("[API1] is a page for a browser, with the content policy of the other pages", async () => {
    const response = await home();
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache");
    expect(response.headers.get("vary")).toBe("Accept");
    expect(response.headers.get("referrer-policy")).toBe("no-referrer");
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(response.headers.get("content-security-policy")).toBe((await rest("/worker")).headers.get("content-security-policy"));
    const page = await response.text();
    expect(page).not.toMatch(/<script(?![^>]* src=")|<style| style=| on\w+="|(?:src|href)="https?:/);
    expect(page).not.toMatch(/\[\[|\{\{|data-if/);
    const links = [...page.matchAll(/<a href="(\/[^"#]*)/g)].map(([, path = ""]) => path.replaceAll("&amp;", "&"));
    for (const link of ["/docs", "/worker", "/pair", "/openapi.json", "/v1/models", "/llms.txt"]) expect(links).toContain(link);
    for (const link of new Set(links)) expect((await rest(link)).status, link).toBe(200);
    expect(page).toContain("<code>http://router.test/v1</code>");
    // The place on the other page that the link for OpenAI's clients leads to.
    expect(await (await rest("/docs")).text()).toContain('id="createChatCompletion"');
    expect(page).toContain("<dd>evm</dd>");
    expect(await (await home({}, { INSTANCE: "svm" })).text()).toContain("<dd>svm</dd>");
    expect(page).toContain("curl -s http://router.test/v1/jobs/commit/cheap");
    expect(page).toContain("ws://router.test/");
  });

  test("every file that the page names exists, and its own files may be cached for ever", async () => {
    const page = await (await home()).text();
    const files = [...new Set([...page.matchAll(/"(\/(?:home|worker)\/[\w.-]+)"/g)].map(([, path = ""]) => path))];
    expect(files.map((path) => path.replace(/-[0-9a-f]{12}/, "")).toSorted()).toEqual(["/home/page.js", "/home/style.css", "/worker/icon.svg"]);
    for (const path of files) {
      const file = await rest(path);
      expect(file.status, path).toBe(200);
      if (path.startsWith("/home/")) expect(file.headers.get("cache-control")).toContain("immutable");
      await file.arrayBuffer();
    }
  });

  test.each([
    ["no Accept", undefined],
    ["curl", "*/*"],
    ["axios", "application/json, text/plain, */*"],
    ["any text", "text/*"],
    ["HTML refused", "application/json, text/html;q=0"],
    ["HTML refused in other words", "text/html; q=0.0, */*"],
    ["another type that holds the word", "text/html-fragment"],
  ])("[API1] is 404 not_found for %s", async (_, accept) => {
    const response = await rest("/", { headers: accept === undefined ? {} : { accept } });
    // A cache must not give one client the answer of the other.
    expect(response.headers.get("vary")).toBe("Accept");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await refusal(response, 404)).toBe("not_found");
  });

  test.each(["text/html", "TEXT/HTML", "application/json, text/html; charset=utf-8; q=0.1"])("[API1] Accept: %s gets the page", async (accept) => {
    const response = await rest("/", { headers: { accept } });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
  });

  test("[WS1] with an upgrade it is the worker socket, whatever Accept says", async () => {
    const response = await home({ upgrade: "websocket" });
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  test("[API1] HEAD has the headers of the page and no body", async () => {
    const get = await home();
    const head = await rest("/", { method: "HEAD", headers: { accept: BROWSER } });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    for (const name of ["content-type", "etag", "vary", "cache-control"]) expect(head.headers.get(name), name).toBe(get.headers.get(name));
    await get.arrayBuffer();
  });

  test.each(["POST", "PUT", "DELETE", "OPTIONS"])("[API1] %s stays 404 not_found", async (method) => {
    expect(await refusal(await rest("/", { method, headers: { accept: BROWSER } }), 404)).toBe("not_found");
  });

  test("a page that the browser already has is not sent again, and another instance has another page", async () => {
    const etag = (await home()).headers.get("etag") ?? expect.unreachable();
    const again = await home({ "if-none-match": etag });
    expect([again.status, await again.text(), again.headers.get("vary"), again.headers.get("etag")]).toEqual([304, "", "Accept", etag]);
    for (const other of [await home({ "if-none-match": etag }, PAID), await home({ "if-none-match": etag }, {}, "http://other.test/")]) {
      expect(other.status).toBe(200);
      await other.arrayBuffer();
    }
  });

  test("[PY1] says what a job costs and that the command gets 402 if jobs are paid, and otherwise that it is free", async () => {
    const visible = async (response: Response) => (await response.text()).replaceAll(/<(p|dd)\s(?:[^>]*\s)?hidden[\s>][\s\S]*?<\/\1>/g, "");
    const free = await visible(await home());
    expect(free).toContain("free because this instance runs in test mode");
    expect(free).not.toContain("402");
    const paid = await visible(await home({}, PAID));
    expect(paid).toContain("The answer is 402");
    expect(paid).toContain("$0.001");
    expect(paid).toContain('href="/docs#commitCheap"');
    expect(paid).toContain('href="/v1/quote?job_type=TASK&amp;policy=CHEAP"');
    expect(paid).not.toMatch(/\bfree\b/i);
    expect(await (await rest("/docs")).text()).toContain('id="commitCheap"');
  });

  test("[WS2] shows the public address: the host of the setting, and https behind a proxy that ends TLS", async () => {
    const page = await (await home({ "x-forwarded-proto": "https" }, { PUBLIC_HOST: "router.example" })).text();
    expect(page).toContain("curl -s https://router.example/v1/jobs/commit/cheap");
    expect(page).toContain("wss://router.example/");
    expect(await (await home({ "x-forwarded-proto": "javascript" })).text()).toContain("curl -s http://router.test/");
  });

  test.each(["http://a';id;'.test/", "http://a`id`.test/", "http://a$(id).test/", "http://a&b.test/", 'http://a"b.test/'])(
    "a Host header that a client invents does not get into the command: %s",
    async (address) => {
      expect(await refusal(await home({}, {}, address), 404)).toBe("not_found");
    },
  );

  test("[API1] needs no hub, and without pages there is none", async () => {
    const response = await home({}, failingHub({ overloaded: true }));
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    expect(await refusal(await home({}, { PAGES: undefined }), 404)).toBe("not_found");
  });

  test.each(["/home", "/home/", "/home/index.html", "/home/sw.js", "/home/a/b"])("[API1] %s is 404: the page is at / and nowhere else", async (path) => {
    expect(await refusal(await home({}, {}, path), 404)).toBe("not_found");
  });
});

describe("GET /favicon.ico", () => {
  test("is the icon, so that browsers log no error", async () => {
    const response = await rest("/favicon.ico");
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "image/png"]);
    expect(response.headers.get("cache-control")).toBe("public, max-age=86400");
    expect([...new Uint8Array(await response.arrayBuffer()).slice(1, 4)]).toEqual([..."PNG"].map((letter) => letter.charCodeAt(0)));
    expect(await refusal(await rest("/favicon.ico", {}, { PAGES: undefined }), 404)).toBe("not_found");
  });

  test("[API8] the page at /docs names it, and the content policy allows it", async () => {
    const response = await rest("/docs");
    expect(response.headers.get("content-security-policy")).toContain("img-src 'self'");
    const [, icon = ""] = /<link rel="icon" href="([^"]+)"/.exec(await response.text()) ?? [];
    const file = await rest(icon);
    expect(file.status).toBe(200);
    await file.arrayBuffer();
  });
});
