import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { freePort } from "../../scripts/coordinator-process.ts";

const HOST = "127.0.0.1";

/** An HTTP server of this process that only this machine can reach. */
export type Listener = {
  readonly port: number;
  /** Without a final slash. */
  readonly url: string;
  /** Stops listening and cuts every connection. */
  close(): Promise<void>;
};

/**
 * Listens on `port` of the loopback interface; 0 takes a free one, which the system gives to no outgoing connection: a facilitator that was down comes back on
 * its own port.
 * @throws when the port is taken
 */
export async function listen(port: number, onRequest: (request: IncomingMessage, response: ServerResponse) => Promise<void>): Promise<Listener> {
  const handle: RequestListener = (request, response) => {
    onRequest(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { error: error instanceof Error ? error.message : String(error) });
    });
  };
  const server = createServer(handle).listen({ port: port === 0 ? await freePort() : port, host: HOST, exclusive: true });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no TCP address");
  return {
    port: address.port,
    url: `http://${HOST}:${address.port}`,
    async close() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Answers with JSON; bigints become numbers. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const bytes = JSON.stringify(body, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value));
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(bytes) }).end(bytes);
}

/** The body of a request as text. */
export function readText(request: IncomingMessage): Promise<string> {
  return text(request);
}
