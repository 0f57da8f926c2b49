// `compute-router mcp --port`: the MCP server over streamable HTTP, for programs of this machine only.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  createMcpHandler,
  isLegacyRequest,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  type McpServer,
  validateHostHeader,
  validateOriginHeader,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

/** The most sessions of clients that speak a protocol of 2025, which has sessions. With one more, the session that was idle for longest ends. */
const MAX_SESSIONS = 32;
/** JSON can make a text of 256 KiB six times as long. */
const MAX_BODY = 2 * 1024 * 1024;
const PATH = "/mcp";

/** A running server. */
type McpHttp = { url: string; close: () => Promise<void> };

/**
 * Serves MCP at `http://127.0.0.1:<port>/mcp`. `Host` and `Origin` must name this machine, so no web page that a user visits can reach it, not even by a DNS
 * name that points here. Rejects if the port is not free.
 */
export async function serveHttp(build: () => McpServer, port: number): Promise<McpHttp> {
  const answer = handler(build);
  const server = createServer((incoming, outgoing) => {
    exchange(incoming, outgoing, answer.fetch).catch(() => outgoing.destroy());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  const close = async (): Promise<void> => {
    const closed = once(server, "close");
    server.close();
    await answer.close();
    server.closeAllConnections();
    await closed;
  };
  return { url: `http://127.0.0.1:${bound}${PATH}`, close };
}

type Handler = { fetch: (request: Request) => Promise<Response>; close: () => Promise<void> };

/**
 * Answers clients of both generations of the protocol. Since 2026 each request stands for itself, and a client cancels by leaving. Those of 2025 have sessions,
 * and cancel by another request of the same session, so the session must be known here.
 */
function handler(build: () => McpServer): Handler {
  const modern = createMcpHandler(build, { legacy: "reject" });
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();

  async function legacy(request: Request): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id !== null) {
      const known = sessions.get(id);
      if (known === undefined) return refusal(404, "Session not found");
      // The last in the map is the one that was used last.
      sessions.delete(id);
      sessions.set(id, known);
      return known.handleRequest(request);
    }
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (opened) => void sessions.set(opened, transport),
      onsessionclosed: (closed) => void sessions.delete(closed),
    });
    await build().connect(transport);
    const response = await transport.handleRequest(request);
    if (transport.sessionId === undefined) await transport.close();
    for (const [idle, known] of [...sessions].slice(0, -MAX_SESSIONS)) {
      sessions.delete(idle);
      await known.close();
    }
    return response;
  }

  return {
    fetch: async (request) => ((await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request)),
    close: async () => {
      await Promise.all([modern.close(), ...[...sessions.values()].map((transport) => transport.close())]);
    },
  };
}

async function exchange(incoming: IncomingMessage, outgoing: ServerResponse, answer: Handler["fetch"]): Promise<void> {
  const leaving = new AbortController();
  outgoing.once("close", () => leaving.abort());
  await send(await answered(incoming, leaving.signal, answer), outgoing);
}

async function answered(incoming: IncomingMessage, signal: AbortSignal, answer: Handler["fetch"]): Promise<Response> {
  const { host, origin } = incoming.headers;
  const isHere = validateHostHeader(host, localhostAllowedHostnames()).ok && validateOriginHeader(origin, localhostAllowedOrigins()).ok;
  if (!isHere) return refusal(403, "Host and Origin must name this machine");
  const [target = "/", base] = [incoming.url, `http://${host}`];
  if (!URL.canParse(target, base)) return refusal(400, "The target of the request is no URL");
  const url = new URL(target, base);
  if (url.pathname !== PATH) return refusal(404, `MCP is served at ${PATH}`);
  const body = await bodyOf(incoming);
  if (body === null) return refusal(413, "The request is too large");
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) if (value !== undefined) headers.set(name, String(value));
  let request: Request;
  try {
    request = new Request(url, { method: incoming.method ?? "GET", headers, signal, ...(body !== "" && { body }) });
  } catch {
    return refusal(400, "A GET has no body here, and a method such as TRACE is not known");
  }
  return answer(request);
}

/** The body as text; null if it is too long. */
async function bodyOf(incoming: IncomingMessage): Promise<string | null> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of incoming) {
    const bytes: unknown = part;
    if (!(bytes instanceof Uint8Array)) continue;
    size += bytes.length;
    if (size > MAX_BODY) return null;
    parts.push(bytes);
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Writes an answer as it arrives. If the client leaves, the rest is not read. */
async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  const reader = response.body?.getReader();
  if (reader !== undefined) {
    outgoing.once("close", () => void reader.cancel().catch(() => {}));
    for (let part = await reader.read(); !part.done && !outgoing.destroyed; part = await reader.read()) {
      if (!outgoing.write(part.value) && !outgoing.destroyed) await Promise.race([once(outgoing, "drain"), once(outgoing, "close")]);
    }
  }
  outgoing.end();
}

function refusal(status: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", error: { code: -32_000, message }, id: null }, { status });
}
