import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** What a facilitator was asked. */
export type Asked = { path: string; method: string; authorization: string | undefined; body: unknown };

/** A facilitator that answers as a test says, over HTTP. */
export type Answering = AsyncDisposable & { url: string; asked: Asked[] };

/** An answer: a status and a body, headers, or something else to do with the connection. */
export type Reply = { status?: number; headers?: Record<string, string>; body?: unknown } | ((request: IncomingMessage, response: ServerResponse) => void);

/** Starts one; `replies` are for the calls of each path in turn, the last of them for all that follow. */
export async function answering(replies: Record<string, Reply | Reply[]>): Promise<Answering> {
  const asked: Asked[] = [];
  const counts = new Map<string, number>();
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const path = request.url ?? "";
      const { method = "", headers: told } = request;
      asked.push({ path, method, authorization: told.authorization, body: body === "" ? null : JSON.parse(body) });
      const all = [replies[path] ?? { status: 404, body: "no such path" }].flat();
      const count = counts.get(path) ?? 0;
      counts.set(path, count + 1);
      const reply = all[Math.min(count, all.length - 1)];
      if (typeof reply === "function") return reply(request, response);
      const { status = 200, headers = {}, body: answer } = reply ?? {};
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
