// A metrics page: where it listens, and the text format of Prometheus. A worker has one, and a coordinator outside Cloudflare.
import { createServer } from "node:http";

/** A running metrics page. */
export type MetricsServer = { url: string; close: () => void };

/** Where a metrics page listens. */
export type MetricsAddress = { host: string; port: number };

/** Parses `--metrics`: `host:port`, `[::1]:port`, or only a port, which means this machine. Null for anything else. */
export function readMetricsAddress(text: string): MetricsAddress | null {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-f:]+)\]:|([\w.-]*):)?(\d{1,5})$/i.exec(text.trim()) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return null;
  return { host: bracketed ?? (plain || "127.0.0.1"), port };
}

/**
 * Serves `GET /metrics`; 503 if the page cannot be made now. Port 0 selects a free port. Rejects with the system's error if the address is in use.
 */
export async function serveMetrics({ host, port }: MetricsAddress, page: () => string | Promise<string>): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    const answer = (status: number, text: string): void => {
      response.writeHead(status, { "content-type": "text/plain; version=0.0.4; charset=utf-8", ...(status === 405 && { allow: "GET, HEAD" }) });
      response.end(text);
    };
    // A program that reads metrics may be set to send a query.
    if (request.url?.split("?")[0] !== "/metrics") return answer(404, "the metrics are at /metrics\n");
    if (request.method !== "GET" && request.method !== "HEAD") return answer(405, "the metrics can only be read\n");
    // Called later, so that also what it throws at once is a rejection.
    void Promise.resolve()
      .then(page)
      .then(
        (text) => answer(200, text),
        () => answer(503, "no metrics now\n"),
      );
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  // An open connection must not keep the process alive.
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

/** The labels of a sample. */
type Labels = Record<string, string>;
/** One value of a metric. */
export type Sample = { labels: Labels; value: number };

/** A metric with its samples in the text format of Prometheus (version 0.0.4). */
export function metricText(name: string, type: "counter" | "gauge", help: string, samples: readonly Sample[]): string {
  const lines = samples.map(({ labels, value }) => `${name}${labelText(labels)} ${value}`);
  return `${[`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines].join("\n")}\n`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
