// A front before workerd that holds at most so many connections. workerd ends when it may open no more files, so it gets one where the system allows few.
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** Files that workerd needs for itself. */
const OWN_FILES = 128;
/** Files that workerd opens for one connection at most: a worker's socket needs two. */
const FILES_PER_CONNECTION = 3;
const LEAST = 8;

/** How many connections workerd can hold if it may open so many files. */
export function connectionsFor(files: number): number {
  return Math.max(LEAST, Math.floor((files - OWN_FILES) / FILES_PER_CONNECTION));
}

/** Passes at most `most` connections on to a port of this machine; one more is closed at once. Resolves when it listens. */
export async function listenCapped({ host, port, to, most }: { host: string; port: number; to: number; most: number }): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const coordinator = connect({ host: "127.0.0.1", port: to, allowHalfOpen: true, noDelay: true });
    forward(client, coordinator);
    forward(coordinator, client);
  });
  server.maxConnections = most;
  server.listen({ host, port });
  await once(server, "listening");
  return server;
}

/** Writes what one side sends to the other side, and ends that side when this one has ended. */
function forward(from: Socket, to: Socket): void {
  from.pipe(to);
  // What was written before is still sent, unless the connection broke.
  from.once("close", (broke) => (broke ? to.destroy() : to.destroySoon()));
  from.on("error", () => {});
}
