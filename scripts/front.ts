// The front before workerd: it takes the connections of clients, at most so many. Short requests of all of them go to the hub on one socket (front-opening.ts),
// everything else is passed on as it is (front-passage.ts). workerd alone reads pings, empty frames and unfinished messages without limits, and ends when it
// may open no more files.
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { HubChannel } from "./front-channel.ts";
import { type ClientOptions, Clients, isOfThisMachine } from "./front-clients.ts";
import { Opening } from "./front-opening.ts";
import { Passage, reach, type WorkerdAddress } from "./front-passage.ts";
import type { ShortRequest } from "./front-short-requests.ts";
import { WorkerSocket } from "./front-socket.ts";
import { MOST_STALLED, Stalls } from "./front-stalls.ts";

/** How often the front looks for connections that are over their time limits. */
const SWEEP_MS = 1_000;

/** The options of a front. */
export type FrontOptions = ClientOptions & {
  host: string;
  port: number;
  to: WorkerdAddress;
  /** Connections at the same time; one more is closed at once. */
  most: number;
  /** The header that tells workerd the address of a client; null if a proxy sets one. Its name is secret, so that no client can send it. */
  peerHeader: string | null;
  /** Where the channel for short requests is opened, with which headers, and whether commits go there too; null for none. */
  channel: { to: WorkerdAddress; headers: Record<string, string>; commits: boolean } | null;
};

/** The clock of a front, in ms, how often it looks at its connections, how many of them may stall, and who they are. Tests have their own. */
type FrontTuning = { now: () => number; sweepMs: number; mostStalled: number; addressOf: (socket: Socket) => string };
const TUNING: FrontTuning = {
  ...{ now: () => performance.now(), sweepMs: SWEEP_MS, mostStalled: MOST_STALLED },
  addressOf: ({ remoteAddress = "" }) => remoteAddress,
};

/** A front that listens. When the coordinator stops, `leave` lets short requests end and takes no more, and `endSockets` ends each WebSocket with 1012. */
export type Front = Server & { leave(): void; endSockets(): void };

/** Passes connections on to workerd. Resolves when it listens. */
export async function listenInFront(options: FrontOptions, tuning: FrontTuning = TUNING): Promise<Front> {
  const { now: clock, sweepMs, mostStalled, addressOf } = tuning;
  const { peerHeader } = options;
  const clients = new Clients(options);
  const openings = new Set<Opening>();
  const passages = new Set<Passage>();
  const sockets = new Set<WorkerSocket>();
  const parts = { clients, stalls: new Stalls(mostStalled), messages: options.messages, isUnix: "path" in options.to, now: clock };
  const channel = options.channel === null ? null : new HubChannel(options.channel.to, options.channel.headers);
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (client) => {
    const now = clock();
    const address = addressOf(client);
    const peer = clients.ofPeer(address, now);
    if (peer !== null && !clients.open(peer, now)) {
      client.destroy();
      return;
    }
    const mark: [string, string] | null = peerHeader === null || isOfThisMachine(address) ? null : [peerHeader, address];
    let opening: Opening | null = null;
    let passage: Passage | null = null;
    let worker: WorkerSocket | null = null;
    client.on("error", () => {});
    client.once("close", () => {
      if (peer !== null && passage === null && worker === null) clients.close(peer, clock());
      if (opening !== null) openings.delete(opening);
      if (passage !== null) passages.delete(passage);
      if (worker !== null) sockets.delete(worker);
    });
    const pass = (bytes: Buffer): void => {
      client.pause();
      if (opening !== null) openings.delete(opening);
      reach(
        options.to,
        client,
        (chunk) => passage?.fromWorkerd(chunk) ?? true,
        (workerd) => {
          if (client.destroyed) {
            workerd.destroy();
            return;
          }
          passage = new Passage({ client, workerd, peer, mark: mark === null ? null : `${mark.join(": ")}\r\n` }, parts);
          passages.add(passage);
          client.resume();
          passage.begin(bytes);
        },
      );
    };
    if (channel === null || options.channel === null) pass(Buffer.alloc(0));
    else {
      const socketOf = (request: ShortRequest) => {
        const socket = new WorkerSocket({ client, peer, request }, { ...parts, channel });
        const begin = (rest: Buffer): void => {
          if (opening !== null) openings.delete(opening);
          if (!socket.open(rest)) return;
          sockets.add((worker = socket));
        };
        return { socket, begin };
      };
      openings.add((opening = new Opening({ client, peer, mark, channel, commits: options.channel.commits, ...parts, socket: socketOf, pass })));
    }
  });
  const sweep = setInterval(() => {
    const now = clock();
    for (const connection of [...openings, ...passages, ...sockets]) connection.sweep(now);
    clients.forget(now);
  }, sweepMs).unref();
  server.once("close", () => {
    clearInterval(sweep);
    channel?.close();
  });
  server.maxConnections = options.most;
  server.listen({ host: options.host, port: options.port });
  await once(server, "listening");
  // If the system could not accept one connection, the front goes on.
  server.on("error", (error) => console.error(`a connection was not accepted: ${error.message}`));
  return Object.assign(server, {
    leave: (): void => {
      for (const opening of openings) opening.leave();
      channel?.drain();
    },
    endSockets: (): void => {
      for (const connection of [...passages, ...sockets]) connection.endSocket();
    },
  });
}
