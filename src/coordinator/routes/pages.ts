import { toHex } from "../../receipt/bytes.ts";
import { escapeHtml } from "../openapi/page.ts";
import { commitPrice } from "../../protocol/pricing.ts";
import type { AppContext } from "../http/context.ts";
import { connect } from "./connect.ts";
import { refuse } from "../http/errors.ts";

// The pages for people are static files behind the assets binding; a socket or a JSON error on the same paths stays what it is everywhere.

/** Files that carry a hash of their content in their name never change under it. */
const HASHED = /-[0-9a-f]{12}\.(?:js|css)$/;
const FOREVER = "public, max-age=31536000, immutable";

/** A host name or address with a port: nothing that could end a word of a shell command or a directive of a policy. */
const PLAIN_HOST = /^[\w.:[\]-]+$/;

/** The worker for browsers, the user's side of a pairing, and what `/` shows. */
type PageName = "worker" | "pair" | "home";

/** `GET /<name>`: a page. The same path with an upgrade is a worker socket, like every path outside the REST table [WS1]. */
export function page(name: PageName): (c: AppContext) => Promise<Response> {
  return async (c) => (isUpgrade(c) ? await connect(c) : await file(c, name, "index.html"));
}

/** `GET /<name>/:file`: what that page is made of. */
export function pageFile(name: PageName): (c: AppContext) => Promise<Response> {
  return async (c) => (isUpgrade(c) ? await connect(c) : await file(c, name, c.req.param("file") ?? ""));
}

/**
 * `GET /`: the address that everything prints shows something in a browser [API1]. For everyone else the path is as unknown as ever, so the answer
 * depends on `Accept`. The page is filled in here, so that its command is right without a script too.
 */
export async function home(c: AppContext): Promise<Response> {
  if (isUpgrade(c)) return await connect(c);
  c.header("Vary", "Accept");
  const { settings } = c.var;
  const address = new URL(c.req.url);
  const host = settings.publicHost ?? address.host;
  // Anybody may point a name at this address. The page has a command to paste, and no name may add to that command.
  if (!acceptsHtml(c.req.header("Accept")) || !PLAIN_HOST.test(host)) return refuse(c, "not_found");
  const template = await c.env.PAGES?.fetch("http://pages/home/index.html");
  if (template?.status !== 200) return refuse(c, "not_found");
  // A proxy that ends TLS speaks plain http to us. Who lies in this header changes only what they see themselves.
  const isTls = address.protocol === "https:" || c.req.header("X-Forwarded-Proto") === "https";
  const facts: Record<string, string> = {
    origin: `http${isTls ? "s" : ""}://${host}`,
    socket: `ws${isTls ? "s" : ""}://${host}/`,
    host,
    network: settings.network,
    instance: settings.instance,
    price: commitPrice("CHEAP"),
  };
  const text = (await template.text())
    .replaceAll(/\[\[(\w+)\]\]/g, (_, name: string) => escapeHtml(facts[name] ?? ""))
    .replaceAll(/data-if="(free|paid)"/g, (_, mode: string) => ((mode === "free") === settings.testnetMode ? "" : "hidden"));
  const bytes = new TextEncoder().encode(text);
  const etag = `W/"${toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))).slice(0, 32)}"`;
  const headers = { ETag: etag, Vary: "Accept", ...pageHeaders(c, "index.html") };
  if (c.req.header("If-None-Match") === etag) return new Response(null, { status: 304, headers });
  return new Response(bytes, { headers: { ...headers, "Content-Type": "text/html; charset=utf-8" } });
}

/** Whether HTML is asked for by name: browsers do, curl and HTTP libraries say that they take anything. */
function acceptsHtml(accept = ""): boolean {
  return accept.split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === "text/html" && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** `GET /favicon.ico`: browsers ask for it beside every answer that names no icon of its own, the JSON ones too. */
export async function favicon(c: AppContext): Promise<Response> {
  if (isUpgrade(c)) return await connect(c);
  const icon = await file(c, "worker", "icon-192.png");
  if (icon.status < 400) icon.headers.set("Cache-Control", "public, max-age=86400");
  return icon;
}

function isUpgrade(c: AppContext): boolean {
  return c.req.header("Upgrade")?.toLowerCase() === "websocket";
}

async function file(c: AppContext, page: PageName, name: string): Promise<Response> {
  // Home is no file as it lies there: it is filled in first.
  const isFile = /^[\w-]+(?:\.[\w-]+)+$/.test(name) && !(page === "home" && name === "index.html");
  if (!isFile || c.env.PAGES === undefined) return refuse(c, "not_found");
  const known = c.req.header("If-None-Match");
  const asset = await c.env.PAGES.fetch(`http://pages/${page}/${name}`, { headers: known === undefined ? {} : { "If-None-Match": known } });
  if (asset.status !== 200 && asset.status !== 304) return refuse(c, "not_found");
  // Headers of an answer from outside cannot be changed; this one's can.
  const answer = new Response(asset.body, asset);
  for (const [header, value] of Object.entries(pageHeaders(c, name))) answer.headers.set(header, value);
  if (page === "worker" && name === "sw.js") answer.headers.set("Service-Worker-Allowed", "/worker");
  return answer;
}

/** What the files of all pages have. Threads and service workers go by the policy of their own file, so every file has it. */
function pageHeaders(c: AppContext, name: string): Record<string, string> {
  return {
    "Cache-Control": HASHED.test(name) ? FOREVER : "no-cache",
    "Content-Security-Policy": policy(new URL(c.req.url).host),
    "Referrer-Policy": "no-referrer",
  };
}

/** Nothing inline, nothing from elsewhere. Older browsers do not take `'self'` for a socket of the same host, so it is named. */
function policy(host: string): string {
  const sockets = PLAIN_HOST.test(host) ? ` ws://${host} wss://${host}` : "";
  return [
    "default-src 'none'",
    "script-src 'self'",
    "worker-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "manifest-src 'self'",
    `connect-src 'self'${sockets}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
