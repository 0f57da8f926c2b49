// What the front outside Cloudflare (scripts/front-channel.ts) and the hub (shared-channel.ts) say on the socket for short requests. Both import it.
/** A request: its id on this socket, method, URL, headers, and body as text. A message of the front is a JSON array of these. */
export type SharedRequest = [id: number, method: string, url: string, headers: [name: string, value: string][], body: string | null];
/**
 * The answer to the request with this id. A message of the hub is a JSON array of these. A poll gets status 0 if its answer is too large for a socket that
 * others wait for: the front passes it on to workerd.
 */
export type SharedAnswer = [id: number, status: number, headers: [name: string, value: string][], body: string];

/** The header with the key that opens a channel, and the setting with the same key. Only the process that runs both knows it. */
export const CHANNEL_KEY_HEADER = "x-channel-key";
export const CHANNEL_KEY = "CHANNEL_KEY";
