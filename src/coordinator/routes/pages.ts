// The pages for browsers: static files behind the assets binding. On the same paths, as on every path outside the REST table, a worker connects its socket.
import { commitPrice } from "../../protocol/pricing.ts";
import { escapeHtml } from "../../protocol/text.ts";
import { RETRY_AFTER } from "../../protocol/times.ts";
import { toHex } from "../../receipt/bytes.ts";
import { PlainRequest, PlainResponse } from "../http/channel-http.ts";
import { type AppContext, refuse } from "../http/context.ts";
import { askHub } from "../http/hub-client.ts";
import { refuseOverRate } from "../http/middleware.ts";
import { clientOf, clientUrl } from "../http/request.ts";
import { CLIENT_HEADER } from "../hub/rpc.ts";

/** Files with a hash of their content in their name: they never change, so browsers may keep them forever. */
const HASHED = /-[0-9a-f]{12}\.(?:js|css)$/;
const FOREVER = "public, max-age=31536000, immutable";

/** A host name or address with a port. It cannot contain a character that ends a word of a shell command or a directive of a content policy. */
const PLAIN_HOST = /^[\w.:[\]-]+$/;

/** The browser worker, the user's side of a pairing, the start page, and the description of the API. */
type PageName = "worker" | "pair" | "home" | "docs";

/** `GET /<name>`: a page. With an upgrade header the same path is a worker socket, like every path outside the REST table [WS1]. */
export function page(name: PageName): (c: AppContext) => Promise<Response> {
  return async (c) => (isUpgrade(c) ? await connect(c) : await file(c, name, "index.html"));
}

/** `GET /<name>/:file`: a file of that page. */
export function pageFile(name: PageName): (c: AppContext) => Promise<Response> {
  return async (c) => (isUpgrade(c) ? await connect(c) : await file(c, name, c.req.param("file") ?? ""));
}

/** `GET /docs`: the description of the API for people [API8]. It is part of the REST table, so an upgrade header changes nothing [WS1]. */
export async function docs(c: AppContext): Promise<Response> {
  return await file(c, "docs", "index.html");
}

/**
 * `GET /`: the start page, for browsers only [API1]. Other clients get 404, so the answer depends on `Accept`. The server fills in the address of
 * this instance, so the command on the page is right even without a script.
 */
export async function home(c: AppContext): Promise<Response> {
  if (isUpgrade(c)) return await connect(c);
  c.header("Vary", "Accept");
  const settings = c.get("settings");
  const address = addressOf(c);
  if (!acceptsHtml(c.req.header("Accept")) || address === null) return refuse(c, "not_found");
  const template = await c.env.PAGES?.fetch("http://pages/home/index.html");
  if (template?.status !== 200) return refuse(c, "not_found");
  const facts: Record<string, string> = {
    ...address,
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

/** True if a request asks to become a WebSocket. */
function isUpgrade(c: AppContext): boolean {
  return c.req.header("Upgrade")?.toLowerCase() === "websocket";
}

/** Answers every path outside the REST table: a WebSocket upgrade is a worker and goes to the hub, every other request gets 404 [WS1, API1]. */
export async function connect(c: AppContext): Promise<Response> {
  if (!isUpgrade(c) || c.req.raw.method !== "GET") return withoutSlash(c) ?? refuse(c, "not_found");
  // The hub counts the sockets of all isolates. Here a client over the rate costs the hub nothing, and a refused upgrade counts too [LM2].
  const refused = await refuseOverRate(c, "connects");
  if (refused !== null) return refused;
  const response = await dial(c, clientOf(c.req.raw, c.get("settings")));
  if (response.status === 101) return response;
  // The hub says when this client may dial again.
  if (response.status === 429) return refuse(c, "rate_limited", Number(response.headers.get("Retry-After")) || RETRY_AFTER.rate_limited);
  return refuse(c, "overloaded", RETRY_AFTER.overloaded);
}

/** The hub's answer to a client that asks for a socket: 101 if it gets one. */
async function dial(c: AppContext, client: string): Promise<Response> {
  const { raw }: { raw: Request | PlainRequest } = c.req;
  if (raw instanceof PlainRequest) return raw.socket?.connect(client, raw.url) ?? PlainResponse.of("", { status: 101, headers: {} });
  const request = new Request(raw);
  request.headers.set(CLIENT_HEADER, client);
  return await askHub(c.env, (hub) => hub.fetch(request));
}

/** People type an address with a slash at its end, too. `/worker/` stays 404 [API1]. */
const WITH_SLASH = ["/docs/", "/pair/"];

/** Leads to the page whose address has a slash too many; null for any other request. */
function withoutSlash(c: AppContext): Response | null {
  const { path, method } = c.req;
  if (c.env.PAGES === undefined || !WITH_SLASH.includes(path) || !["GET", "HEAD"].includes(method)) return null;
  return c.redirect(path.slice(0, -1) + new URL(c.req.url).search, 308);
}

/** The address at which a client reached this instance, for texts that name it. Null if its host has characters that could change the meaning of a text. */
export function addressOf(c: AppContext): { host: string; origin: string; socket: string } | null {
  const url = clientUrl(c);
  const host = c.get("settings").publicHost ?? url.host;
  // Anyone can point a host name at this address. The start page has a command to paste, so the name must not be able to extend that command.
  if (!PLAIN_HOST.test(host)) return null;
  const s = url.protocol === "https:" ? "s" : "";
  return { host, origin: `http${s}://${host}`, socket: `ws${s}://${host}/` };
}

/** `GET /favicon.ico`: browsers request it for every answer that names no icon, JSON included. */
export async function favicon(c: AppContext): Promise<Response> {
  if (isUpgrade(c)) return await connect(c);
  const icon = await file(c, "worker", "icon-192.png");
  if (icon.status < 400) icon.headers.set("Cache-Control", "public, max-age=86400");
  return icon;
}

/** True if `Accept` names HTML. Browsers do that; curl and HTTP libraries accept anything and do not name it. */
function acceptsHtml(accept = ""): boolean {
  return accept.split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === "text/html" && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

async function file(c: AppContext, page: PageName, name: string): Promise<Response> {
  // The start page is a template: only `home` may serve it.
  const isFile = /^[\w-]+(?:\.[\w-]+)+$/.test(name) && !(page === "home" && name === "index.html");
  if (!isFile || c.env.PAGES === undefined) return refuse(c, "not_found");
  const etag = c.req.header("If-None-Match");
  const asset = await c.env.PAGES.fetch(`http://pages/${page}/${name}`, { headers: etag === undefined ? {} : { "If-None-Match": etag } });
  if (asset.status !== 200 && asset.status !== 304) return refuse(c, "not_found");
  // Copied, because the headers of a fetched response cannot be changed.
  const answer = new Response(asset.body, asset);
  for (const [header, value] of Object.entries(pageHeaders(c, name))) answer.headers.set(header, value);
  if (page === "worker" && name === "sw.js") answer.headers.set("Service-Worker-Allowed", "/worker");
  return answer;
}

/** The headers of all page files. Every file needs the content policy, because Web Workers and service workers obey the policy of their own file. */
function pageHeaders(c: AppContext, name: string): Record<string, string> {
  return {
    "Cache-Control": HASHED.test(name) ? FOREVER : "no-cache",
    "Content-Security-Policy": policy(new URL(c.req.url).host),
    "Referrer-Policy": "no-referrer",
  };
}

/** A content policy that allows nothing inline and nothing from other hosts. In older browsers `'self'` does not cover sockets, so they are named. */
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
