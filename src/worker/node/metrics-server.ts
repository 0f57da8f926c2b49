import { createServer } from "node:http";

/** A running metrics page. */
export type MetricsServer = { url: string; close: () => void };

/** Where a metrics page listens. */
export type MetricsAddress = { host: string; port: number };

/** Reads `--metrics`: `host:port`, `[::1]:port`, or a port alone, which means this machine only. Null if it is none of these. */
export function readMetricsAddress(text: string): MetricsAddress | null {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-f:]+)\]:|([\w.-]*):)?(\d{1,5})$/i.exec(text.trim()) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return null;
  return { host: bracketed ?? (plain || "127.0.0.1"), port };
}

/** Serves `GET /metrics`. Port 0 takes a free one. Rejects with the system's error if the address is taken. */
export async function serveMetrics({ host, port }: MetricsAddress, page: () => string): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    const found = request.url === "/metrics" && (request.method === "GET" || request.method === "HEAD");
    response.writeHead(found ? 200 : 404, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
    response.end(found ? page() : "the metrics are at /metrics\n");
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  // Whoever scrapes does not keep the worker from leaving.
  server.unref();
  const address = server.address();
  const taken = address !== null && typeof address === "object" ? address.port : port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/metrics`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
