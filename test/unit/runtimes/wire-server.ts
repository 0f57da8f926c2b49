// A real HTTP server for tests of LLM clients.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";

/** A request as it came over the wire. */
export type Received = { method: string; path: string; headers: IncomingMessage["headers"]; body: string };

/** Starts a real HTTP server for one test. */
export async function serve(
  answer: (request: Received, response: ServerResponse) => unknown,
): Promise<{ origin: string; baseUrl: string; received: Received[] }> {
  const received: Received[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const entry = { method: request.method ?? "", path: request.url ?? "", headers: request.headers, body: await text(request) };
    received.push(entry);
    await answer(entry, response);
  };
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const origin = `http://127.0.0.1:${address.port}`;
  return { origin, baseUrl: `${origin}/v1`, received };
}

/** Answers JSON. */
export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** One chunk of a chat stream. */
export function chunk(delta: Record<string, unknown>, finish: string | null = null): unknown {
  return { id: "c", object: "chat.completion.chunk", created: 1, model: "served-name", choices: [{ index: 0, delta, finish_reason: finish }] };
}

/** The text of a server-sent event. */
export function event(data: unknown, newline = "\n"): string {
  return `data: ${typeof data === "string" ? data : JSON.stringify(data)}${newline}${newline}`;
}

/** Answers a stream of server-sent events from these texts. */
export function stream(response: ServerResponse, ...events: string[]): void {
  response.writeHead(200, { "content-type": "text/event-stream" }).end(events.join(""));
}

/** The usage chunk that `include_usage` asks for. */
export const USAGE = { id: "c", object: "chat.completion.chunk", choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } };

/** A port of loopback that nobody listens on. */
export async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
