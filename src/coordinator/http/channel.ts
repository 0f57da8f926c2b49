// The channel: answers inside the hub the short requests that the front outside Cloudflare (scripts/front.ts) sends on one socket, and carries the frames of
// workers' sockets that end at the front. A request, an RPC and a frame of its own cost workerd as much as all that the coordinator does with it
// (docs/decisions/0019). On Cloudflare there is no channel.
import { timingSafeEqual } from "node:crypto";
import { KiB } from "../../protocol/limits.ts";
import { endOfTurn } from "../deadline.ts";
import type { FarEnd, NearEnd } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import { PlainRequest, PlainResponse } from "./channel-http.ts";
import {
  CHANNEL_KEY_HEADER,
  type ChannelAnswer,
  ChannelBatch,
  type ChannelFrame,
  type ChannelNote,
  type ChannelRequest,
  LONG,
  longMessage,
  readMessage,
  type ToFront,
} from "./channel-messages.ts";

/** A longer answer to a poll is not sent. A commit that waited gets any answer, because it cannot be made again. */
export const LONGEST_POLL = 64 * KiB;
/** So many characters are sent at once, so that small answers need not wait for many large ones. */
const MESSAGE_CHARS = 256 * KiB;
/** The code of a connection that broke (RFC 6455, 7.1.5). */
const BROKEN = 1006;

/** What a channel needs of the hub. */
export type ChannelHub = {
  /** Answers a request; must not reject. */
  respond: (request: Request) => Response | Promise<Response>;
  /** Calls `read`, and resolves when all that it has changed in its turn is written, unless the hub collects more before it writes. */
  gather: (read: () => void) => Promise<void>;
  /** Creates the hub's end of a socket. */
  dial: (far: FarEnd) => NearEnd;
};

/** True for a request that opens a channel. `key` is unset on Cloudflare: there nothing opens one. */
export function opensChannel(request: Request, key: unknown): boolean {
  const given = Buffer.from(request.headers.get(CHANNEL_KEY_HEADER) ?? "");
  if (given.length === 0 || typeof key !== "string") return false;
  const wanted = Buffer.from(key);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** Opens a channel. Returns the answer that switches to WebSocket. */
export function openChannel(hub: ChannelHub): Response {
  const { 0: front, 1: near } = new WebSocketPair();
  const channel = new Channel(near, hub);
  near.accept();
  near.addEventListener("message", ({ data }) => void channel.read(String(data)));
  near.addEventListener("close", () => {
    near.close();
    channel.end();
  });
  near.addEventListener("error", () => channel.end());
  return new Response(null, { status: 101, webSocket: front });
}

/** The hub's end of a channel. */
class Channel {
  readonly #near: WebSocket;
  readonly #hub: ChannelHub;
  readonly #sockets = new Map<number, NearEnd>();
  readonly #batch: ChannelBatch<ToFront>;
  #isReading = false;

  constructor(near: WebSocket, hub: ChannelHub) {
    this.#near = near;
    this.#hub = hub;
    this.#batch = new ChannelBatch({
      ...{ most: MESSAGE_CHARS, send: (message) => this.#send(message) },
      // The end of a read message sends it.
      later: (flush) => void (this.#isReading || endOfTurn().then(flush)),
    });
  }

  /** Reads a message of the front. All that answers it at once is one message, which says that it is done. */
  async read(message: string): Promise<void> {
    this.#isReading = true;
    try {
      await this.#hub.gather(() => {
        for (const part of readMessage(message)) {
          if (part.length === 2) this.#note(part);
          else void this.#answer(part);
        }
      });
      await endOfTurn();
    } catch (error) {
      logError("internal_error", errorFacts(error));
    } finally {
      this.#isReading = false;
      this.#batch.add([true], 0);
      this.#batch.flush();
    }
  }

  /** The front has ended, or has closed the channel. */
  end(): void {
    for (const id of [...this.#sockets.keys()]) this.#drop(id);
  }

  #note([id, note]: ChannelFrame | ChannelNote): void {
    const socket = this.#sockets.get(id);
    if (typeof note === "string") socket?.receive(note);
    else if ("quiet" in note) socket?.noteQuiet(note.quiet);
    else if ("binary" in note) socket?.receive(null);
    else this.#drop(id, note.closed);
  }

  #drop(id: number, code = BROKEN): void {
    const socket = this.#sockets.get(id);
    this.#sockets.delete(id);
    socket?.end(code);
  }

  async #answer([id, method, url, headers, body]: ChannelRequest): Promise<void> {
    const request = new PlainRequest({ method, url, headers, body });
    if (request.headers.has("upgrade")) request.socket = this.#dial(id);
    try {
      const response: Response | PlainResponse = await this.#hub.respond(request.asRequest());
      const text = response instanceof PlainResponse ? response.body : await response.text();
      if (response.status !== 101) this.#drop(id);
      if (body === null && text.length > LONGEST_POLL) this.#batch.add([id, 0, [], ""], 0);
      else this.#say([id, response.status, [...response.headers], text]);
    } catch (error) {
      this.#drop(id);
      logError("internal_error", { method, ...errorFacts(error) });
      this.#say([id, 500, [["content-type", "application/json"]], '{"error":"internal_error"}']);
    }
  }

  #dial(id: number): NearEnd {
    const socket = this.#hub.dial({
      send: (text) => this.#say([id, text]),
      close: (code, reason) => this.#batch.add([id, code, reason], 0),
    });
    this.#sockets.set(id, socket);
    return socket;
  }

  #say(part: ChannelAnswer | ChannelFrame): void {
    const text = part.length === 2 ? part[1] : part[3];
    if (text.length <= LONG) return this.#batch.add(part, text.length);
    this.#batch.flush();
    this.#send(longMessage(part.slice(0, -1), text));
  }

  #send(message: string): void {
    // If the front has closed the channel or has ended, nobody waits for it.
    if (this.#near.readyState === WebSocket.OPEN) this.#near.send(message);
  }
}
