// A front before another server in workerd's place, with a clock that the test sets; with a channel, a hub that answers when the test wants it to.
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { type Front, type FrontOptions, listenInFront } from "../../scripts/front.ts";
import type { ChannelAnswer, ChannelFrame, ChannelNote, ChannelRequest, ToFront, ToHub } from "../../src/coordinator/http/channel-messages.ts";
import { partsOf } from "./channel-parts.ts";
import { finallyDo } from "./finally.ts";
import { until } from "./until.ts";

/** The address of every client of a front with a channel. */
export const ADDRESS = "203.0.113.7";

export const portOf = (server: { address(): AddressInfo | string | null }): number => {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
};

/** The clock of a front. */
export class FrontClock {
  #at = 0;
  #looks = 0;
  readonly now = (): number => {
    this.#looks++;
    return this.#at;
  };

  /** Sets it, and waits until the front has looked at its connections some times. */
  async set(at: number): Promise<void> {
    this.#at = at;
    const before = this.#looks;
    await until("some sweeps", () => this.#looks >= before + 4 || undefined);
  }
}

/** A connection to a front, and what it has got so far. */
async function dial(front: Front): Promise<{ socket: Socket; got: () => string }> {
  const socket = connect({ host: "127.0.0.1", port: portOf(front) });
  socket.on("error", () => {});
  finallyDo(() => socket.destroy());
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(socket, "connect");
  return { socket, got: () => Buffer.concat(chunks).toString() };
}

/** Starts a front with a channel. `isDone`: its hub is done with each message at once; otherwise when the test says so. */
export async function frontWithChannel({ commits = true, limitsClients = true, trustedIpHeader = null as string | null, isDone = true } = {}) {
  /** What workerd's place was asked on its own port: method and path. */
  const passed: string[] = [];
  const behind = createServer((request, response) => {
    passed.push(`${request.method} ${request.url}`);
    request.resume().once("end", () => response.end("passed on"));
  });
  const hub = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  behind.listen(0, "127.0.0.1");
  await Promise.all([once(behind, "listening"), once(hub, "listening")]);
  /** The messages of the front, and the sockets that it has opened. */
  const messages: ToHub[][] = [];
  const channels: WebSocket[] = [];
  const keys: unknown[] = [];
  hub.on("connection", (socket, { headers }) => {
    channels.push(socket);
    keys.push(headers["x-key"]);
    socket.on("message", (data: Buffer) => {
      messages.push(partsOf<ToHub>(data.toString()));
      if (isDone) socket.send(JSON.stringify([[true]]));
    });
  });
  const clock = new FrontClock();
  const channel = { to: { host: "127.0.0.1", port: portOf(hub) }, headers: { "x-key": "k" }, commits };
  const options: FrontOptions = {
    ...{
      host: "127.0.0.1",
      port: 0,
      to: { host: "127.0.0.1", port: portOf(behind) },
      most: 2_000,
      limitsClients,
      trustedIpHeader,
      peerHeader: trustedIpHeader === null ? "x-peer" : null,
    },
    ...{ messages: { perSecond: 50, burst: 200 }, channel },
  };
  const front = await listenInFront(options, { now: clock.now, sweepMs: 5, mostStalled: 2, addressOf: () => ADDRESS });
  finallyDo(() => {
    front.close();
    front.leave();
    hub.close();
    for (const socket of channels) socket.terminate();
    behind.closeAllConnections();
    behind.close();
  });
  await until("a channel", () => channels.length > 0 || undefined);
  /** The requests that the hub got. */
  const asked = (): ChannelRequest[] => messages.flat().filter((part) => part.length === 5);
  return {
    ...{ front, passed, messages, channels, keys, asked },
    /** Waits until the hub has got so many requests. */
    askedFor: (count: number) => until(`${count} requests`, () => (asked().length >= count ? asked() : undefined)),
    /** What the hub got besides requests. */
    told: (): (ChannelFrame | ChannelNote)[] => messages.flat().filter((part) => part.length === 2),
    answer: (...answers: ToFront[]) => channels.at(-1)?.send(JSON.stringify(answers)),
    /** The same for an answer or a frame whose text is long. */
    answerLong: (part: ChannelAnswer | ChannelFrame) => channels.at(-1)?.send(`${JSON.stringify(part.slice(0, -1))}\n${part.at(-1)}`),
    dial: () => dial(front),
    set: (at: number) => clock.set(at),
  };
}
