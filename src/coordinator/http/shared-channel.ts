// The channel: answers inside the hub the short requests that the front outside Cloudflare (scripts/front.ts) sends on one socket, and carries the frames of
// workers' sockets that end at the front. A request, an RPC and a frame of its own cost workerd as much as all that the coordinator does with it
// (docs/decisions/0019). On Cloudflare there is no channel.
import { timingSafeEqual } from "node:crypto";
import { KiB } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import {
  CHANNEL_KEY_HEADER,
  LONG,
  type SharedAnswer,
  type SharedClose,
  type SharedFrame,
  type SharedLong,
  type SharedNote,
  type SharedRequest,
} from "./shared-messages.ts";
import { type NearEnd, ShortRequest, ShortResponse } from "./short-http.ts";

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
  /** Creates the hub's end of a socket. */
  dial: (far: { send(text: string): void; close(code: number, reason: string): void }) => NearEnd;
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
  near.addEventListener("message", ({ data }) => channel.read(String(data)));
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
  #batch: (SharedAnswer | SharedFrame | SharedClose | SharedLong)[] = [];
  #batchChars = 0;
  #nextIsLongOf: number | null = null;

  constructor(near: WebSocket, hub: ChannelHub) {
    this.#near = near;
    this.#hub = hub;
  }

  read(message: string): void {
    const long = this.#nextIsLongOf;
    this.#nextIsLongOf = null;
    if (long !== null) return this.#note([long, message]);
    const parts: (SharedRequest | SharedFrame | SharedNote | SharedLong)[] = JSON.parse(message);
    for (const part of parts) {
      if (part.length === 1) [this.#nextIsLongOf] = part;
      else if (part.length === 2) this.#note(part);
      else void this.#answer(part);
    }
  }

  /** The front has ended, or has closed the channel. */
  end(): void {
    for (const id of [...this.#sockets.keys()]) this.#drop(id);
  }

  #note([id, note]: SharedFrame | SharedNote): void {
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

  async #answer([id, method, url, headers, body]: SharedRequest): Promise<void> {
    const request = new ShortRequest({ method, url, headers, body });
    if (request.headers.has("upgrade")) request.socket = this.#dial(id);
    try {
      const response: Response | ShortResponse = await this.#hub.respond(request.asRequest());
      const text = response instanceof ShortResponse ? response.body : await response.text();
      if (response.status !== 101) this.#drop(id);
      if (body === null && text.length > LONGEST_POLL) this.#send([id, 0, [], ""], 0);
      else if (text.length > LONG) this.#sendLong([id, response.status, [...response.headers], null], text);
      else this.#send([id, response.status, [...response.headers], text], text.length);
    } catch (error) {
      this.#drop(id);
      logError("internal_error", { method, ...errorFacts(error) });
      this.#send([id, 500, [["content-type", "application/json"]], '{"error":"internal_error"}'], 0);
    }
  }

  #dial(id: number): NearEnd {
    const socket = this.#hub.dial({
      send: (text) => (text.length > LONG ? this.#sendLong([id], text) : this.#send([id, text], text.length)),
      close: (code, reason) => this.#send([id, code, reason], 0),
    });
    this.#sockets.set(id, socket);
    return socket;
  }

  /** Sends it with all that comes in the same turn. */
  #send(part: SharedAnswer | SharedFrame | SharedClose, chars: number): void {
    if (this.#batch.push(part) === 1) setTimeout(() => this.#flush(), 0);
    this.#batchChars += chars;
    if (this.#batchChars > MESSAGE_CHARS) this.#flush();
  }

  #sendLong(part: SharedAnswer | SharedLong, text: string): void {
    this.#batch.push(part);
    this.#flush();
    this.#put(text);
  }

  #flush(): void {
    if (this.#batch.length === 0) return;
    const message = JSON.stringify(this.#batch);
    this.#batch = [];
    this.#batchChars = 0;
    this.#put(message);
  }

  #put(message: string): void {
    // If the front has closed the channel or has ended, nobody waits for it.
    if (this.#near.readyState === WebSocket.OPEN) this.#near.send(message);
  }
}
