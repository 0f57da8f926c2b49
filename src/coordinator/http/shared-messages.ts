// What the front outside Cloudflare (scripts/front-channel.ts) and the hub (shared-channel.ts) say on the channel, the socket between them. Both import it. A
// message is a JSON array of what is below, or a long frame.
import { KiB } from "../../protocol/limits.ts";

/** To the hub: a request; its id on the channel, method, URL, headers, and body as text. An upgrade asks for a worker's socket with this id. */
export type SharedRequest = [id: number, method: string, url: string, headers: [name: string, value: string][], body: string | null];
/** The body of a poll whose answer may have any size. */
export const OF_ANY_SIZE = "";
/**
 * To the front: the answer to the request with this id. A long body is null, as the last of its message: it is the next message. A poll gets status 0 if its
 * answer is too large for a channel that others wait for: the front passes it on to workerd. An upgrade gets 101 if its socket is open.
 */
export type SharedAnswer = [id: number, status: number, headers: [name: string, value: string][], body: string | null];

/** In both directions: a text frame of a worker's socket. */
export type SharedFrame = [socket: number, text: string];
/**
 * To the hub: what else happened on a worker's socket. `quiet`: it was last heard so many ms ago; 0 for a heartbeat, which the front answers, and of which the
 * hub is told only if it was told before that the socket is quiet, or with the next frame. `binary`: a frame came that is no text. `closed`: the connection has
 * ended, with this code.
 */
export type SharedNote = [socket: number, note: { quiet: number } | { binary: true } | { closed: number }];
/** To the front: close this socket. */
export type SharedClose = [socket: number, code: number, reason: string];

/** A frame or body of more UTF-16 units or bytes is a message of its own: to write and read it as JSON would cost more than all that the hub does with it. */
export const LONG = 16 * KiB;
/** In both directions, as the last of its message: the next message is a long text frame of this socket, as it is. */
export type SharedLong = [socket: number];

/** The header with the key that opens a channel, and the setting with the same key. Only the process that runs both knows it. */
export const CHANNEL_KEY_HEADER = "x-channel-key";
export const CHANNEL_KEY = "CHANNEL_KEY";
