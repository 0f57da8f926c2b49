import { Agent, request } from "node:http";
import { buffer } from "node:stream/consumers";

/** A request as it goes over the wire: nothing is tidied up on the way. */
export type Ask = { method: string; path: string; headers: Record<string, string>; body: Uint8Array | null };

/** What came back. */
export type Answer = { status: number; headers: Record<string, string>; body: string };

const agent = new Agent({ keepAlive: true, maxSockets: 16 });

/** Sends a request to a coordinator on this machine. @throws when the connection breaks or nobody answers in 20 s */
export function ask(port: number, { method, path, headers, body }: Ask): Promise<Answer> {
  return new Promise((resolve, reject) => {
    // Said in any case: node leaves it out where a method has no body by habit, and the body would be read as the next request.
    const length = body === null ? {} : { "content-length": String(body.byteLength) };
    const outgoing = request({ agent, host: "127.0.0.1", port, method, path, headers: { ...headers, ...length }, timeout: 20_000 }, (incoming) => {
      buffer(incoming).then((bytes) => {
        const told = Object.entries(incoming.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : (value ?? "")]);
        resolve({ status: incoming.statusCode ?? 0, headers: Object.fromEntries(told), body: bytes.toString("utf8") });
      }, reject);
    });
    outgoing.on("timeout", () => outgoing.destroy(new Error("no answer in 20 s")));
    outgoing.on("error", reject);
    outgoing.end(body ?? undefined);
  });
}
