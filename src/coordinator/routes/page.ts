import type { AppContext } from "./app-env.ts";
import { connect } from "./connect.ts";
import { refuse } from "./refuse.ts";

/** Files that carry a hash of their content in their name never change under it. */
const HASHED = /-[0-9a-f]{12}\.(?:js|css)$/;
const FOREVER = "public, max-age=31536000, immutable";

/** The pages for people: the worker for browsers, and the user's side of a pairing. */
type PageName = "worker" | "pair";

/** `GET /<name>`: a page. The same path with an upgrade is a worker socket, like every path outside the REST table [WS1]. */
export function page(name: PageName): (c: AppContext) => Promise<Response> {
  return async (c) => (isUpgrade(c) ? await connect(c) : await file(c, name, "index.html"));
}

/** `GET /<name>/:file`: what that page is made of. */
export function pageFile(name: PageName): (c: AppContext) => Promise<Response> {
  return async (c) => (isUpgrade(c) ? await connect(c) : await file(c, name, c.req.param("file") ?? ""));
}

function isUpgrade(c: AppContext): boolean {
  return c.req.header("Upgrade")?.toLowerCase() === "websocket";
}

async function file(c: AppContext, page: PageName, name: string): Promise<Response> {
  if (!/^[\w-]+(?:\.[\w-]+)+$/.test(name) || c.env.PAGES === undefined) return refuse(c, "not_found");
  const known = c.req.header("If-None-Match");
  const asset = await c.env.PAGES.fetch(`http://pages/${page}/${name}`, { headers: known === undefined ? {} : { "If-None-Match": known } });
  if (asset.status !== 200 && asset.status !== 304) return refuse(c, "not_found");
  // Headers of an answer from outside cannot be changed; this one's can.
  const answer = new Response(asset.body, asset);
  answer.headers.set("Cache-Control", HASHED.test(name) ? FOREVER : "no-cache");
  // Threads and service workers go by the policy of their own file, so every file has it.
  answer.headers.set("Content-Security-Policy", policy(new URL(c.req.url).host));
  answer.headers.set("Referrer-Policy", "no-referrer");
  if (page === "worker" && name === "sw.js") answer.headers.set("Service-Worker-Allowed", "/worker");
  return answer;
}

/** Nothing inline, nothing from elsewhere. Older browsers do not take `'self'` for a socket of the same host, so it is named. */
function policy(host: string): string {
  const sockets = /^[\w.:[\]-]+$/.test(host) ? ` ws://${host} wss://${host}` : "";
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
