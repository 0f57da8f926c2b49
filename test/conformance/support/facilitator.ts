import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll } from "vitest";

/** The facilitator's reply to a call: JSON, text, or a function that gets the response. */
export type Reply = { status?: number; body: unknown } | ((response: ServerResponse) => void);

/** A facilitator whose replies a test sets, and which keeps all calls. */
export type FakeFacilitator = { url: string; calls: { path: string; body: string }[]; replies: Record<string, Reply> };

/** Starts a facilitator, which stops after the tests of this file. A call without a reply gets 404. */
export async function fakeFacilitator(): Promise<FakeFacilitator> {
  const calls: FakeFacilitator["calls"] = [];
  const replies: Record<string, Reply> = {};
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const path = request.url ?? "";
      calls.push({ path, body });
      const reply = replies[path] ?? { status: 404, body: "no such path" };
      if (typeof reply === "function") return reply(response);
      response.writeHead(reply.status ?? 200, { "content-type": "application/json" });
      response.end(typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, replies };
}
