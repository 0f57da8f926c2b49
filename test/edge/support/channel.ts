// The front's end of a channel in the edge tests, and workers whose sockets end there.
import { onTestFinished } from "vitest";
import {
  CHANNEL_KEY_HEADER,
  type ChannelAnswer,
  type ChannelFrame,
  type ChannelNote,
  LONG,
  type ToFront,
  type ToHub,
} from "../../../src/coordinator/http/channel-messages.ts";
import type { KeyPair } from "../../../src/receipt/index.ts";
import { partsOf } from "../../support/channel-parts.ts";
import { TestWorker } from "./worker.ts";
import { type TestHub, until } from "./worker-hub.ts";

/** The key with which a test lets its hub open channels. */
export const KEY = "0123456789abcdef";
export const ORIGIN = "http://hub.test";
const UPGRADE: [string, string][] = [
  ["host", "hub.test"],
  ["upgrade", "websocket"],
];

/** Opens a socket with this key at the hub. */
export async function dial(hub: TestHub, key: string): Promise<WebSocket> {
  const { webSocket } = await hub.stub.fetch(ORIGIN, { headers: { Upgrade: "websocket", [CHANNEL_KEY_HEADER]: key } });
  if (webSocket === null) throw new Error("no socket");
  webSocket.accept();
  // A hub with such a socket is not evicted.
  onTestFinished(() => webSocket.close());
  return webSocket;
}

/** What a worker's end of a socket needs of one. */
class FarSocket extends EventTarget {
  readonly #send: (part: ChannelFrame | ChannelNote) => void;
  readonly id: number;

  constructor(id: number, send: (part: ChannelFrame | ChannelNote) => void) {
    super();
    this.id = id;
    this.#send = send;
  }

  accept(): void {}

  send(data: string | ArrayBuffer): void {
    this.#send(typeof data === "string" ? [this.id, data] : [this.id, { binary: true }]);
  }

  close(code: number): void {
    this.#send([this.id, { closed: code }]);
  }
}

/** A worker, and what the front says of its socket. */
type ChannelWorker = { worker: TestWorker; note: (note: ChannelNote[1]) => void };

let channels = 0;

/** A channel, and what has come on it. */
export class TestChannel {
  readonly messages: ToFront[][] = [];
  readonly #socket: WebSocket;
  readonly #far = new Map<number, FarSocket>();
  #last = 1_000;
  /** Its clients have an address of their own, because the router counts those of all hubs. */
  readonly #ip = `198.18.0.${++channels % 250}`;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#read(partsOf<ToFront>(String(data))));
  }

  static async open(hub: TestHub): Promise<TestChannel> {
    return new TestChannel(await dial(hub, KEY));
  }

  write(message: string): void {
    this.#socket.send(message);
  }

  send(...parts: ToHub[]): void {
    this.write(JSON.stringify(parts));
  }

  #sendOf(part: ChannelFrame | ChannelNote): void {
    const [id, text] = part;
    if (typeof text !== "string" || text.length <= LONG) return this.send(part);
    this.write(`${JSON.stringify([id])}\n${text}`);
  }

  close(): void {
    this.#socket.close();
  }

  /** The answers by their ids, as soon as there are so many. */
  async answers(count: number) {
    const all = (): ChannelAnswer[] => this.messages.flat().filter((part) => part.length === 4);
    await until(async () => all().length >= count, `${count} answers`);
    return new Map(all().map(([id, status, headers, body]) => [id, { status, headers: new Headers(headers), body }]));
  }

  /** Asks for a worker's socket. Resolves to its id and the status of the answer. */
  async upgrade(headers: [string, string][] = []): Promise<[id: number, status: number]> {
    const id = this.#last++;
    this.#far.set(id, new FarSocket(id, (part) => this.#sendOf(part)));
    this.send([id, "GET", `${ORIGIN}/`, [...UPGRADE, ["x-test-ip", this.#ip], ...headers], null]);
    const all = () => this.messages.flat().find((part) => part.length === 4 && part[0] === id);
    await until(async () => all() !== undefined, "an answer");
    return [id, Number(all()?.[1])];
  }

  /** A worker that got its challenge and has not registered. */
  async connect(key?: KeyPair, headers: [string, string][] = []): Promise<ChannelWorker> {
    const id = this.#last;
    const far = this.upgrade(headers);
    const worker = await TestWorker.greeted(this.#far.get(id) as unknown as WebSocket, key);
    const [, status] = await far;
    if (status !== 101) throw new Error(`no socket: ${status}`);
    return { worker, note: (note) => this.send([id, note]) };
  }

  /** A worker that gets jobs at once. */
  async worker(key?: KeyPair): Promise<ChannelWorker> {
    const connected = await this.connect(key);
    await connected.worker.register();
    return connected;
  }

  #read(parts: ToFront[]): void {
    this.messages.push(parts);
    for (const part of parts) {
      if (part.length === 2) this.#far.get(part[0])?.dispatchEvent(new MessageEvent("message", { data: part[1] }));
      if (part.length === 3) this.#far.get(part[0])?.dispatchEvent(new CloseEvent("close", { code: part[1], reason: part[2] }));
    }
  }
}
