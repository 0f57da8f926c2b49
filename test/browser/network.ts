// A network between a browser and a coordinator, which a test can cut.
import { createServer, connect, type Socket } from "node:net";
import { once } from "node:events";
import { finallyDo } from "../support/finally.ts";

/** A network between a browser and a coordinator that can be cut, or made to lose what the browser sends. */
export type Network = {
  /** The coordinator's address through this network. */
  readonly url: string;
  /** Ends every connection and lets none through. */
  cut(): void;
  /** What browsers send is lost; what they are sent still comes. */
  swallow(): void;
  /** GETs of paths that begin so are answered 404, as by a coordinator that was updated. */
  lose(path: string): void;
  /** As it should be. Connections that lost something are ended: nothing would make sense on them any more. */
  mend(): void;
};

const NOT_FOUND = 'HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 21\r\nConnection: close\r\n\r\n{"error":"not_found"}';

/** Puts such a network in front of `target` (an http URL), removed after the tests of this file. */
export async function launchNetwork(target: string): Promise<Network> {
  const { hostname, port } = new URL(target);
  const near = new Set<Socket>();
  let mode: "open" | "cut" | "swallow" = "open";
  let lost: string | null = null;
  const endAll = () => {
    for (const socket of near) socket.destroy();
  };
  const server = createServer((client) => {
    if (mode === "cut") return client.destroy();
    near.add(client);
    const far = connect(Number(port), hostname);
    far.on("data", (chunk) => client.write(chunk));
    client.on("data", (chunk) => {
      // Browsers begin each request in a packet of its own.
      if (lost !== null && chunk.toString("latin1").startsWith(`GET ${lost}`)) client.end(NOT_FOUND);
      else if (mode !== "swallow") far.write(chunk);
    });
    for (const [one, other] of [
      [client, far],
      [far, client],
    ] as const) {
      one.on("error", () => {});
      one.on("close", () => {
        near.delete(client);
        other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  finallyDo(() => {
    endAll();
    server.close();
  });
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("no address");
  return {
    url: `http://127.0.0.1:${address.port}`,
    cut: () => {
      mode = "cut";
      endAll();
    },
    swallow: () => {
      mode = "swallow";
    },
    lose: (path) => {
      lost = path;
    },
    mend: () => {
      mode = "open";
      lost = null;
      endAll();
    },
  };
}
